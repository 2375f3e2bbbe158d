"""The interactive page of an fx graph: one file that needs nothing from elsewhere.

The steps are in the page as JSON; `page.js` beside this file lays them out, folds modules up and
searches. Everything that comes from a program is set as text, never as markup.
"""

from __future__ import annotations

import json
from html import escape
from importlib import resources
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rushlight.viz.programs import Step

__all__ = ["page"]

STYLE = """
:root { color-scheme: light dark; --ink: #222; --paper: #fff; --line: #999; --box: #8a8a8a;
  --forward: #dae8fc; --backward: #ffe6cc; --input: #d5e8d4; --attribute: #fff2cc;
  --output: #e1d5e7; --found: #d33; --near: #1f6feb; }
@media (prefers-color-scheme: dark) { :root { --ink: #eee; --paper: #1c1c1c; --line: #777;
  --forward: #27456b; --backward: #6b4a1f; --input: #2f5d34; --attribute: #5c5320;
  --output: #4e3a5e; --found: #ff7a7a; --near: #79b8ff; } }
body { margin: 0; font: 14px system-ui, sans-serif; color: var(--ink); background: var(--paper); }
header { position: sticky; top: 0; display: flex; gap: .75rem; flex-wrap: wrap; padding: .5rem 1rem;
  align-items: center; background: var(--paper); border-bottom: 1px solid var(--line); }
header h1 { font-size: 1rem; margin: 0; }
header ul { display: flex; gap: .75rem; margin: 0; padding: 0; list-style: none; }
header .key { display: inline-block; width: .9em; height: .9em; border: 1px solid var(--box);
  border-radius: 3px; vertical-align: -.1em; }
header .key.module { border-width: 2px; } header .key.saved { height: 0; border: 0;
  border-top: 2px dashed var(--line); vertical-align: .3em; }
body { display: flex; flex-direction: column; height: 100vh; }
main { display: flex; flex: 1; min-height: 0; }
#picture { flex: 1; min-width: 0; overflow: auto; padding: .5rem; }
#picture svg { display: block; margin: 0 auto; }
#details { width: 18rem; padding: .75rem 1rem; border-left: 1px solid var(--line);
  overflow: auto; overflow-wrap: anywhere; }
#details dt { font-weight: 600; margin-top: .4rem; } #details dd { margin: 0; }
svg { font: 11px ui-monospace, monospace; }
svg text { fill: var(--ink); text-anchor: middle; } svg .title { font-weight: 600; }
svg rect { stroke: var(--box); cursor: pointer; } svg path { fill: none; stroke: var(--line); }
.forward rect { fill: var(--forward); } .backward rect { fill: var(--backward); }
.placeholder rect { fill: var(--input); } .get_attr rect { fill: var(--attribute); }
.output rect { fill: var(--output); } .module rect { stroke-width: 2; }
svg .saved { stroke-dasharray: 5 4; opacity: .6; }
svg .result { opacity: .3; }
svg .near { stroke: var(--near); stroke-width: 2; opacity: 1; }
.found rect { stroke: var(--found); stroke-width: 3; }
.chosen rect { stroke: var(--ink); stroke-width: 2.5; }
"""

BODY = """
<header><h1></h1>
<label>Search <input id="search" type="search" placeholder="name, op, shape, line"></label>
<span id="count" role="status"></span>
<button id="fold" type="button">Fold modules</button>
<button id="unfold" type="button">Unfold all</button>
<span><button id="smaller" type="button" aria-label="smaller">−</button>
<button id="larger" type="button" aria-label="larger">+</button>
<button id="fit" type="button">Fit</button></span>
<ul><li><i class="key" style="background: var(--forward)"></i> forward</li>
<li><i class="key" style="background: var(--backward)"></i> backward</li>
<li><i class="key" style="background: var(--input)"></i> input</li>
<li><i class="key" style="background: var(--attribute)"></i> attribute</li>
<li><i class="key" style="background: var(--output)"></i> output</li>
<li><i class="key module"></i> folded module</li>
<li><i class="key saved"></i> kept for the backward</li></ul></header>
<main><div id="picture"></div><aside id="details">Choose a node to see its call, shape, dtype,
source line, module, inputs and users. Choose a module to open it.</aside></main>
"""


def page(steps: list[Step], title: str) -> str:
    data = {"title": title, "steps": [step.as_dict() for step in steps]}
    # A closing tag within a string would end the script.
    text = json.dumps(data, ensure_ascii=False).replace("<", "\\u003c")
    script = resources.files("rushlight.viz").joinpath("page.js").read_text(encoding="utf-8")
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>{BODY}"
        f'<script type="application/json" id="data">{text}</script>\n'
        f"<script>\n{script}</script>\n</body>\n</html>"
    )
