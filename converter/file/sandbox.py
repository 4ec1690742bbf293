"""Confinement of a process that handles untrusted bytes: it may read what it needs, compute, and write its results.

Readers of other projects are compiled code that we have not checked, and a program in a file may name whatever such
a reader knows. A process that runs one gives up first what it does not need: other files, new files, the network,
other processes, time and memory. Results leave it through files that were open before.

Each kind of limit is the system's own, and holds by itself where there is no other:

    limits    resource limits: time, memory, how large a file may become, how many may be open (POSIX)
    landlock  which files can be opened, and for what (Linux 5.13 and later, where it is switched on)
    seccomp   which calls of the kernel fail (Linux on x86-64 and Arm)

Of the standard library only: what is imported here is imported before the limits hold.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path

LIMITS, LANDLOCK, SECCOMP = "limits", "landlock", "seccomp"


def features() -> frozenset[str]:
    """The kinds of limits that this system has."""
    found = {LIMITS} if os.name == "posix" else set()
    if _landlock_version():
        found.add(LANDLOCK)
    if _has_seccomp():
        found.add(SECCOMP)
    return frozenset(found)


# ---- time and memory


def limit_resources(seconds: int, memory: int, file_bytes: int, files: int = 256, data: int | None = None) -> None:
    """Bounds what this process and its threads can take of the machine, where the system can.

    Args:
        seconds: of processor time. memory: bytes of address space. file_bytes: the largest size that a file can be
            written to. files: how many can be open. data: bytes of memory that it can write to; None: as of `memory`.
    """
    try:
        import resource
    except ImportError:
        return
    most = {resource.RLIMIT_CPU: seconds, resource.RLIMIT_AS: memory, resource.RLIMIT_FSIZE: file_bytes,
            resource.RLIMIT_NOFILE: files, resource.RLIMIT_CORE: 0,
            resource.RLIMIT_DATA: memory if data is None else data}  # fmt: skip
    for what, number in most.items():
        _, hard = resource.getrlimit(what)
        number = number if hard == resource.RLIM_INFINITY else min(number, hard)
        resource.setrlimit(what, (number, number))
    sys.dont_write_bytecode = True  # Python would keep a cut off file of it, and fail to import it ever after


# ---- files

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
"""The same on all processors."""
_WRITE_FILE, _READ_FILE, _READ_DIR, _REFER, _TRUNCATE, _DEVICES = (1 << i for i in (1, 2, 3, 13, 14, 15))
_CHANGE = sum(1 << i for i in range(4, 13))
"""Remove and make files of each kind."""
_OF_FILES = _WRITE_FILE | _READ_FILE | _TRUNCATE | _DEVICES
_TCP = 0b11
_OTHERS = 0b11
"""Sockets without a file, and signals to processes outside."""
_NEEDED = ("/usr", "/lib", "/lib64", "/opt", "/etc/ld.so.cache", "/etc/localtime", "/dev/null", "/dev/urandom",
           "/dev/random", "/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/sys/vm",
           "/sys/devices/system", "/sys/fs/cgroup")  # fmt: skip
"""What interpreters and libraries of numbers read of a system."""


def installation() -> list[Path]:
    """The folders that Python and its packages are in."""
    paths = [sys.prefix, sys.base_prefix, sys.exec_prefix, *sys.path, *sysconfig.get_paths().values()]
    package = sys.modules["minnow"].__path__ if "minnow" in sys.modules else ()
    return [Path(p) for p in dict.fromkeys([*paths, *package, str(Path(__file__).parents[2])]) if p]


def restrict_files(readable: Iterable[Path], writable: Iterable[Path] = ()) -> bool:
    """From here on this thread, and those that it starts, can open no other files than these and the installation.

    It holds for no thread that there is already: so this comes before libraries are imported that start some. What is
    open stays open.

    Args:
        readable: files, or folders with all beneath them. writable: the same, in which files can be made, too.

    Returns:
        Whether the system has this.
    """
    version = _landlock_version()
    if not version:
        return False
    handled = _WRITE_FILE | _READ_FILE | _READ_DIR | _CHANGE
    handled |= (_REFER if version >= 2 else 0) | (_TRUNCATE if version >= 3 else 0) | (_DEVICES if version >= 5 else 0)
    rules = struct.pack("=QQQ", handled, _TCP if version >= 4 else 0, _OTHERS if version >= 6 else 0)
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    ruleset = _call(_CREATE_RULESET, rules, size, 0)
    try:
        for path in (*installation(), *map(Path, _NEEDED), *readable):
            _allow(ruleset, path, _READ_FILE | _READ_DIR)
        for path in writable:
            _allow(ruleset, path, handled)
        _keep_privileges()
        _call(_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)
    return True


def _allow(ruleset: int, path: Path, access: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # what is not there needs no permission
    try:
        if not os.path.isdir(f"/proc/self/fd/{place}"):
            access &= _OF_FILES
        _call(_ADD_RULE, ruleset, 1, struct.pack("=Qi", access, place), 0)
    finally:
        os.close(place)


def _landlock_version() -> int:
    if sys.platform != "linux":
        return 0
    try:
        return max(_call(_CREATE_RULESET, None, 0, 1), 0)
    except OSError:
        return 0


# ---- calls of the kernel

_MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
"""Which of the numbers below, and what the kernel calls the processor."""
_DENIED: dict[str, tuple[int | None, int | None]] = {
    # other programs and processes
    "execve": (59, 221), "execveat": (322, 281), "fork": (57, None), "vfork": (58, None), "ptrace": (101, 117),
    "kill": (62, 129), "pidfd_send_signal": (424, 424), "pidfd_open": (434, 434), "pidfd_getfd": (438, 438),
    "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "setrlimit": (160, 164),
    # the network
    "socket": (41, 198), "socketpair": (53, 199), "connect": (42, 203), "bind": (49, 200), "listen": (50, 201),
    "accept": (43, 202), "accept4": (288, 242),
    # changes in the file system
    "creat": (85, None), "truncate": (76, 45), "rename": (82, None), "renameat": (264, 38), "renameat2": (316, 276),
    "mkdir": (83, None), "mkdirat": (258, 34), "rmdir": (84, None), "link": (86, None), "linkat": (265, 37),
    "unlink": (87, None), "unlinkat": (263, 35), "symlink": (88, None), "symlinkat": (266, 36),
    "mknod": (133, None), "mknodat": (259, 33), "chmod": (90, None), "fchmod": (91, 52), "fchmodat": (268, 53),
    "fchmodat2": (452, 452), "chown": (92, None), "fchown": (93, 55), "lchown": (94, None), "fchownat": (260, 54),
    "utime": (132, None), "utimes": (235, None), "futimesat": (261, None), "utimensat": (280, 88),
    "setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7), "removexattr": (197, 14),
    "lremovexattr": (198, 15), "fremovexattr": (199, 16), "mq_open": (240, 180), "mq_unlink": (241, 181),
    "open_by_handle_at": (304, 265), "name_to_handle_at": (303, 264),
    # the system
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51), "unshare": (272, 97),
    "setns": (308, 268), "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430),
    "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433), "mount_setattr": (442, 442),
    "swapon": (167, 224), "swapoff": (168, 225), "reboot": (169, 142), "sethostname": (170, 161),
    "setdomainname": (171, 162), "settimeofday": (164, 170), "clock_settime": (227, 112), "acct": (163, 89),
    "quotactl": (179, 60), "iopl": (172, None), "ioperm": (173, None), "init_module": (175, 105),
    "finit_module": (313, 273), "delete_module": (176, 106), "kexec_load": (246, 104), "bpf": (321, 280),
    "perf_event_open": (298, 241), "userfaultfd": (323, 282), "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426), "io_uring_register": (427, 427), "add_key": (248, 217),
    "request_key": (249, 218), "keyctl": (250, 219), "personality": (135, 92),
}  # fmt: skip
"""Numbers of the calls that fail, on x86-64 and on Arm; None where there is no such call."""
_UNKNOWN: dict[str, tuple[int, int]] = {"clone3": (435, 435), "openat2": (437, 437)}
"""Calls whose arguments no filter can see: for the caller this kernel does not have them, so it takes older ones."""
_OPEN, _OPENAT, _CLONE, _PRLIMIT, _SECCOMP = (2, None), (257, 56), (56, 220), (302, 261), (317, 277)
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_THREAD = 0x00010000

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _FAIL, _KILL = 0x7FFF0000, 0x00050000, 0x80000000


def restrict_calls() -> bool:
    """From here on all threads of this process are without network, other programs, and new or changed files.

    What is open can still be read and written. It cannot be taken back, and holds for all that comes after.

    Returns:
        Whether the system has this.
    """
    if not _has_seccomp():
        return False
    column, machine = _MACHINES[platform.machine()]
    code = _program(column, machine)
    buffer = ctypes.create_string_buffer(code)
    program = struct.pack("@HP", len(code) // 8, ctypes.addressof(buffer))
    _keep_privileges()
    thread = _call(_SECCOMP[column] or 0, 1, 1, program)  # one filter for all threads
    if thread:
        raise OSError(errno.EPERM, f"the thread {thread} has a filter of its own")
    return True


def _program(column: int, machine: int) -> bytes:
    """The filter, as the kernel's small machine runs it for each call."""
    steps = [(_LOAD, 0, 0, 4), (_EQUAL, 1, 0, machine), (_RETURN, 0, 0, _KILL), (_LOAD, 0, 0, 0)]
    fail, unknown = _FAIL | errno.EPERM, _FAIL | errno.ENOSYS
    if machine == _MACHINES["x86_64"][1]:
        steps += [(_AT_LEAST, 0, 1, 0x40000000), (_RETURN, 0, 0, unknown)]  # the same calls by other numbers
    for table, result in ((_DENIED, fail), (_UNKNOWN, unknown)):
        for numbers in table.values():
            if (number := numbers[column]) is not None:
                steps += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, result)]

    def decide(numbers: tuple[int | None, int | None], argument: int, bits: int, allowed_if_set: bool) -> None:
        if (number := numbers[column]) is None:
            return
        steps.extend([(_EQUAL, 0, 4, number), (_LOAD, 0, 0, 16 + 8 * argument),
                      (_ANY_BIT, *((1, 0) if allowed_if_set else (0, 1)), bits),
                      (_RETURN, 0, 0, fail), (_RETURN, 0, 0, _ALLOW)])  # fmt: skip

    decide(_OPEN, 1, _WRITING, False)
    decide(_OPENAT, 2, _WRITING, False)
    decide(_CLONE, 0, _THREAD, True)
    for half in (0, 4):  # limits may be read, not set: the pointer to new ones is null
        steps += [(_EQUAL, 0, 3, _PRLIMIT[column] or 0), (_LOAD, 0, 0, 16 + 8 * 2 + half), (_EQUAL, 1, 0, 0),
                  (_RETURN, 0, 0, fail), (_LOAD, 0, 0, 0)]  # fmt: skip
    steps.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("=HBBI", *step) for step in steps)


def _has_seccomp() -> bool:
    if sys.platform != "linux" or platform.machine() not in _MACHINES or sys.maxsize < 1 << 32:
        return False
    try:
        return _call(_SECCOMP[_MACHINES[platform.machine()][0]] or 0, 2, 0, struct.pack("=I", _FAIL)) == 0
    except OSError:
        return False


def _keep_privileges() -> None:
    """No program that this process might start has more rights than it: the kernel asks for this first."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(38, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "no_new_privs")


def _call(number: int, *arguments: int | bytes | None) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    given = [a if isinstance(a, bytes) else None if a is None else ctypes.c_long(a) for a in arguments]
    result = int(libc.syscall(ctypes.c_long(number), *given))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result
