"""What the seeds that compilers make have in common: a source, and a shell command for each seed."""

import pathlib
import subprocess
import tempfile


def write_seeds(folder, source_name, source, commands, others=None):
    """Runs each command (name -> text, OUT is the seed's path) beside the source; `others` are seeds as they are. What can't
    be made here is left out with a word. Gives the exit status: 0 when there is a seed."""
    folder = pathlib.Path(folder).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    made = 0
    for name, content in (others or {}).items():
        (folder / name).write_bytes(content)
        made += 1
    with tempfile.TemporaryDirectory() as work:
        pathlib.Path(work, source_name).write_text(source)
        for name, command in commands.items():
            done = subprocess.run(command.replace("OUT", str(folder / name)), shell=True, cwd=work, capture_output=True)
            if done.returncode:
                print(f"{name}: not made here")
                (folder / name).unlink(missing_ok=True)
            made += not done.returncode
    print(f"{made} seeds in {folder}")
    return 0 if made else 1
