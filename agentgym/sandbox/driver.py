"""Runs a job inside the sandbox: modules in memory and the program.

It is not imported but passed to `python -c`, and imports little: start-up dominates short programs.
"""

import select
import sys
import time


class Files:
    """Imports modules from sources in memory."""

    def __init__(self, files):
        self.files = files

    def find_spec(self, name, path=None, target=None):
        """Returns the spec of a module whose file is in the job."""
        file = name.replace(".", "/") + ".py"
        spec = type(sys.__spec__)
        return spec(name, self, origin=file) if file in self.files else None

    def create_module(self, spec):
        """Leaves the creation of modules to Python."""

    def exec_module(self, module):
        """Runs the source of a module."""
        file = module.__spec__.origin
        module.__file__ = file
        exec(compile(self.files[file], file, "exec"), module.__dict__)


def sleep(seconds):
    """Sleeps. With the shifted clock of the sandbox, the function of `time` never returns."""
    select.select([], [], [], seconds)


def report(error, files):
    """Writes the traceback of an error, without the frames of this driver."""
    import linecache
    import traceback

    for file, source in files.items():
        linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    places = error.__traceback__
    while places and places.tb_frame.f_code.co_filename == "<string>":
        places = places.tb_next
    shown = traceback.TracebackException(type(error), error, places)
    sys.stdout.flush()
    sys.stderr.write("".join(shown.format()))
    sys.stderr.flush()


def run():
    """Reads a job and runs its program as the module `__main__`."""
    code, files = eval(sys.stdin.buffer.read())  # written by the worker as literals
    sys.meta_path.insert(0, Files(files))
    time.sleep = sleep
    main = sys.modules["__main__"] = type(sys)("__main__")
    try:
        exec(compile(code, "main.py", "exec"), main.__dict__)
    except SystemExit:
        raise
    except BaseException as error:
        report(error, {**files, "main.py": code})
        sys.exit(1)


if __name__ == "__main__":
    run()
