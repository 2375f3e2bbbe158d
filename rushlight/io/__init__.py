"""Files: checkpoints in torch's formats, read without running anything that they name."""
