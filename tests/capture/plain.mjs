// Runs `plain.py` on the CPython that the npm package pyodide is: 314.x is CPython 3.14.
//
//     node plain.mjs PACKAGE REPOSITORY SITE [arguments of pytest]
//
// PACKAGE is the folder of the npm package, SITE one with pytest in it.
import path from "node:path";
import { pathToFileURL } from "node:url";

const [folder, repository, site, ...args] = process.argv.slice(2);
const { loadPyodide } = await import(pathToFileURL(path.resolve(folder, "pyodide.mjs")));
const env = { HOME: "/home", FUZZ_CAPTURE: process.env.FUZZ_CAPTURE ?? "2000" };
const python = await loadPyodide({ env, stdout: console.log, stderr: console.error });
for (const [place, root] of [["/repository", repository], ["/site", site]]) {
  python.FS.mkdirTree(place);
  python.FS.mount(python.FS.filesystems.NODEFS, { root: path.resolve(root) }, place);
}
python.globals.set("arguments", python.toPy(args));
const code = python.runPython(`
import runpy, sys
sys.path.append("/site")
runpy.run_path("/repository/tests/capture/plain.py")["main"](list(arguments))
`);
process.exit(code);
