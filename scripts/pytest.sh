#!/bin/sh
# Run tests: an interpreter, then pytest's arguments. With FAILED_TESTS_AGAIN=1 those that failed run once more, alone in
# a process of their own, and decide: many of these tests end, kill, race and time real processes, and a machine with
# other load can fail one that is right. What failed first is shown in full and named at the end.
set -u
python=$1
shift
"$python" -m pytest "$@"
status=$?
# Exit code 1: some tests failed. All others (interrupted, an error of pytest's own, nothing collected) stand.
if [ $status != 1 ] || [ "${FAILED_TESTS_AGAIN:-}" != 1 ]; then
    exit $status
fi
echo "Some tests failed; they run once more, alone."
"$python" -m pytest --last-failed --last-failed-no-failures none -v "$@" || exit $?
echo "What failed above passed alone: a test of these depends on what else the machine does."
