# SPDX-License-Identifier: Apache-2.0
"""Children of a process that uses the package."""
import gc
import os
import signal
import subprocess
import sys
import textwrap

from session import Session, ts, main
from tessera import _library


def outcome_in_child(function):
    """What the function returns in a child, 0 to 200; fails where the child does not end."""
    child = os.fork()
    if child == 0:
        signal.alarm(20)  # ends a child that hangs
        outcome = 201
        try:
            outcome = function()
        finally:
            os._exit(outcome)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


class Forks(Session):
    def test_let_a_child_exit_that_does_nothing_else(self):
        script = textwrap.dedent("""
            import os, signal, sys
            import tessera as ts
            with ts.init():
                x = ts.zeros((4,), mesh=ts.mesh(range(2)))
                stream, view = ts.Stream(), x.on(0).view()
                child = os.fork()
                if child == 0:
                    signal.alarm(20)
                    sys.exit(3)
                print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        """)
        done = subprocess.run([sys.executable, "-B", "-c", script], capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "3\n", ""))

    def test_give_nothing_back_in_a_child(self):
        mesh = self.mesh(2)
        mine = [ts.zeros((4,), mesh=mesh), ts.Stream(mesh), ts.Event()]
        mine.append(mine[0].on(0).view())

        def count():
            calls = []
            for name in _library._CALLS:
                setattr(_library.lib, name, lambda *args, name=name: calls.append(name) or 0)
            mine.clear()
            gc.collect()
            return len(calls)

        self.assertEqual(outcome_in_child(count), 0)
        self.assertEqual(len(mine), 4)

    def test_make_calls_in_a_child_raise(self):
        x = ts.zeros((4,), mesh=self.mesh(2))
        stream = ts.Stream(x.mesh)

        def count():
            wrong = 0
            for call in (x.fill, x.free, stream.synchronize, self.context.shutdown, lambda: ts.Array((4,), mesh=x.mesh)):
                try:
                    call()
                    wrong += 1
                except ts.NotInitialized as e:
                    wrong += "forked" not in str(e)
            return wrong

        self.assertEqual(outcome_in_child(count), 0)
        x.fill(0)
        stream.synchronize()

    def test_let_a_child_have_a_context_of_its_own(self):
        def sum_of_ranks():
            with ts.init():
                x = ts.zeros((4,), mesh=ts.mesh(range(2)))
                ts.default_stream(x.mesh).synchronize()
                x.on(0).view()[:] = 5
                ts.collectives.all_reduce(x.mesh, x)
                ts.default_stream(x.mesh).synchronize()
                total = int(x.on(1).view()[0])
                del x
                gc.collect()
                return total

        self.assertEqual(outcome_in_child(sum_of_ranks), 5)


if __name__ == "__main__":
    main()
