"""Programs that run other programs, as tables: which of their options take a value, and where the command stands.

Knows names of programs and options; parses no shell.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

__all__ = [
    "AWKS", "FLAGS", "FOR_FILES", "GUARDED", "JOINED", "KEEPING", "LEAVING", "LOGIN", "MAKES", "PACKAGED", "PASSING",
    "PROMPTS", "READERS", "READING_FILES", "RUN", "RUNNERS", "SCRIPTED", "SCRIPTED_VERBS", "SHELLS", "SILENT",
    "SPEAKING", "TELLING", "TEXTS", "VARIABLES", "WRAPPERS", "RunnerOptions",
    "normalize_program",
]  # fmt: skip


class RunnerOptions(NamedTuple):
    """The ways in which a program is told what to run.

    `valued` are its options that take the next word; `before` how many words stand in front of the command;
    `assigns` whether NAME=value may stand there; `script` the options whose value is shell text.
    """

    valued: frozenset[str] = frozenset()
    before: int = 0
    assigns: bool = False
    script: frozenset[str] = frozenset()


def make_wrapper(valued: str = "", *, before: int = 0, assigns: bool = False, script: str = "") -> RunnerOptions:
    return RunnerOptions(frozenset(valued.split()), before, assigns, frozenset(script.split()))


OF_WINDOWS: Final = re.compile(r"\.(?:exe|cmd|bat)\Z")


def normalize_program(name: str) -> str:
    """Return the name of a program as it is compared: file systems may take capitals for small letters."""
    return OF_WINDOWS.sub("", name.casefold()).lstrip("=")  # to zsh =git is the path of git


def split_names(names: str) -> frozenset[str]:
    """Return the names in a text."""
    return frozenset(names.split())


# What these run is run by the shell itself, so that a `cd` in it counts.
KEEPING: Final = frozenset({"eval", "command", "builtin", "source", ".", "time", "-"})
SHELLS: Final = frozenset(
    {"sh", "bash", "zsh", "dash", "ksh", "ksh93", "mksh", "ash", "rbash", "fish", "csh", "tcsh", "yash", "posh"}
)
LEAVING: Final = frozenset({"exit", "return"})
LOADERS: Final = ("ld.so", "ld-linux.so.2", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1")
# Long options of these that take no value; of those in no table, both readings are followed.
FLAGS: Final = split_names("""
    --help --version --verbose --quiet --ignore-environment --null --debug --preserve-env --background
    --non-interactive --login --shell --reset-timestamp --remove-timestamp --validate --list --stdin --set-home
    --edit --preserve-groups --askpass --bell --no-update --foreground --preserve-status --kill-child
    --no-run-if-empty --interactive --open-tty --exit --show-limits --append --portability --batch --idle --fifo
    --other --rr --ignore --all-tasks --reset-on-fork --cpu-list --pid --pty --user --scope --wait --pipe --collect
    --no-block --same-dir --remain-after-exit --fork --ctty --follow-forks --nonblock --no-fork --exclusive --shared
    --unlock --close --net --ipc --uts --mount --cgroup --map-root-user --map-current-user --keep-caps --yes
    --no-install --no --workspaces --include-workspace-root --prefer-offline --bun --silent --color --differences
    --beep --errexit --chgexit --no-title --exec --precise --no-new-privs --clear-groups --init-groups --keep-groups
    --auto-servernum --isolated --no-cache --offline --no-progress --refresh --all --preserve-credentials
    --target-all --no-env
""")
# Run the words that follow as a command.
WRAPPERS: Final[Mapping[str, RunnerOptions]] = {
    "-": make_wrapper(),  # of zsh
    "repeat": make_wrapper(before=1),  # of zsh
    "sudo": make_wrapper(
        "-a --auth-type -c --login-class -u --user -g --group -h --host -p --prompt -C --close-from -T"
        " --command-timeout -U --other-user -r --role -t --type -D --chdir -R --chroot",
        assigns=True,
    ),
    "doas": make_wrapper("-u -C", assigns=True),
    "env": make_wrapper("-u --unset -C --chdir -a --argv0 -P -S --split-string", assigns=True),
    "nice": make_wrapper("-n --adjustment"),
    "ionice": make_wrapper("-c --class -n --classdata -P --pgid -u --uid"),
    "chrt": make_wrapper("-T --sched-runtime -P --sched-period -D --sched-deadline", before=1),
    "taskset": make_wrapper(before=1),
    "numactl": make_wrapper("-i -m -N -C -p --interleave --membind --cpunodebind --physcpubind --preferred"),
    "nohup": make_wrapper(),
    "setsid": make_wrapper(),
    "time": make_wrapper("-f --format -o --output", assigns=True),
    "timeout": make_wrapper("-s --signal -k --kill-after", before=1),
    "stdbuf": make_wrapper("-i --input -o --output -e --error"),
    "command": make_wrapper(),
    "builtin": make_wrapper(),
    "exec": make_wrapper("-a"),
    "noglob": make_wrapper(),
    "nocorrect": make_wrapper(),
    "xargs": make_wrapper(
        "-I -J -R -n -P -L -d -E -s -a --max-args --max-procs --delimiter --max-chars --arg-file --process-slot-var"
    ),
    "busybox": make_wrapper(),
    "toybox": make_wrapper(),
    "chroot": make_wrapper("--userspec --groups", before=1),
    "unshare": make_wrapper("-R --root -w --wd -S --setuid -G --setgid --propagation --map-user --map-group"),
    "nsenter": make_wrapper("-t --target -S --setuid -G --setgid"),
    "arch": make_wrapper("-arch -d -e"),  # of macOS; elsewhere it takes no word, and runs none
    "wsl": make_wrapper("-d --distribution -u --user --cd --shell-type"),
    "setarch": make_wrapper(),  # the name of an architecture may follow, which runs the rest by itself
    **{name: make_wrapper() for name in ("linux32", "linux64", "uname26", "i386", "i686", "x86_64", "aarch64")},
    "strace": make_wrapper("-e -o -p -s -u -E -I -O -S -a -b -P -X -U"),
    "ltrace": make_wrapper("-e -o -p -s -u -n -a -l -x -D"),
    "flock": make_wrapper("-w --wait --timeout -E --conflict-exit-code", before=1, script="-c --command"),
    "runuser": make_wrapper("-u --user -g --group -G --supp-group", script="-c --command"),
    "firejail": make_wrapper(),
    "proxychains": make_wrapper("-f"),
    "proxychains4": make_wrapper("-f"),
    "torsocks": make_wrapper(),
    "caffeinate": make_wrapper("-t -w"),
    "npx": make_wrapper("-p --package", script="-c --call"),
    "pnpx": make_wrapper(),
    "bunx": make_wrapper(),
    "uvx": make_wrapper("--from --with -p --python --index-url"),
    "pkexec": make_wrapper("--user"),
    "run0": make_wrapper("-u --user -g --group -D --chdir --setenv --unit --nice"),
    "systemd-run": make_wrapper(
        "-u --unit -p --property -E --setenv --on-active --on-calendar --uid --gid --slice -M -H"
    ),
    "setpriv": make_wrapper("--reuid --regid --groups --inh-caps --ambient-caps --bounding-set --securebits"),
    "fakeroot": make_wrapper("-l --lib -s -i"),
    "unbuffer": make_wrapper(),
    "rlwrap": make_wrapper("-f -H -s -l -D -P -C -b -q"),
    "xvfb-run": make_wrapper("-n -s -e -f -p -w --server-num --server-args --error-file --auth-file"),
    "dbus-run-session": make_wrapper("--config-file --dbus-daemon"),
    "eatmydata": make_wrapper(),
    "entr": make_wrapper(),
    "screen": make_wrapper("-S -c -h -p -t -T -e -s"),
    "torify": make_wrapper(),
    "ssh-agent": make_wrapper("-a -E -O -P -t"),
    "sshpass": make_wrapper("-p -f -d -P"),
    "prlimit": make_wrapper("-p --pid -o --output"),
    "systemd-inhibit": make_wrapper(),
    "cgexec": make_wrapper("-g"),
    "gosu": make_wrapper(before=1),
    "su-exec": make_wrapper(before=1),
    "setuidgid": make_wrapper(before=1),
    "faketime": make_wrapper(before=1),
    "tini": make_wrapper("-p -e"),
    "dumb-init": make_wrapper("-r --rewrite"),
    "catchsegv": make_wrapper(),
    **{name: make_wrapper("--library-path --preload --argv0") for name in LOADERS},
    "valgrind": make_wrapper(),
}
# Run a text, or the words that follow joined by spaces, in a shell: after so many words.
JOINED: Final[Mapping[str, RunnerOptions]] = {
    "eval": make_wrapper(),
    "watch": make_wrapper("-n --interval -q --equexit"),
    "parallel": make_wrapper(
        "-j --jobs -P --max-procs -a --arg-file -I -n --max-args -N --max-replace-args -L -d --delimiter -C --colsep -E"
        " -S --sshlogin -s --tmpdir --results --joblog --timeout --delay --load --memfree --retries --nice --env --halt"
        " --block --tagstring --return --basefile --wd --workdir --arg-sep --rpl -J --profile"
    ),
    "ssh": make_wrapper("-B -b -c -D -E -e -F -I -i -J -L -l -m -O -o -p -Q -R -S -W -w", before=1),
}
# Take shell text as the value of an option.
SCRIPTED: Final[Mapping[str, RunnerOptions]] = {
    "su": make_wrapper("-s --shell -g --group -G --supp-group -w --whitelist-environment", script="-c --command"),
    "script": make_wrapper("-E --echo -I -O -B -T -o", script="-c --command"),
    "sg": make_wrapper(script="-c"),
    "man": make_wrapper(script="-P --pager"),
    "sort": make_wrapper(script="--compress-program"),
    "split": make_wrapper(script="--filter"),
    "wget": make_wrapper(script="--use-askpass"),
    "zip": make_wrapper(script="-TT --unzip-command"),
    "nix-shell": make_wrapper(script="--run --command"),
    **{name: make_wrapper(script="-C --command") for name in ("fly", "flyctl")},
    "ansible": make_wrapper(script="-a --args"),
    "vagrant": make_wrapper(script="-c --command"),
    "tar": make_wrapper(
        script="--to-command -I --use-compress-program --checkpoint-action --rsh-command -F --info-script"
    ),
    "rsync": make_wrapper(script="-e --rsh"),
    "ncat": make_wrapper(script="-e --exec -c --sh-exec"),
    **{name: make_wrapper(script="-e") for name in ("nc", "netcat")},
    "trap": make_wrapper(),
    "alias": make_wrapper(),
}
# Take shell text as the value of an option behind this word of theirs.
SCRIPTED_VERBS: Final[Mapping[str, tuple[frozenset[str], frozenset[str]]]] = {
    "cargo": (split_names("watch"), split_names("-s --shell")),
    "npm": (split_names("exec x"), split_names("-c --call")),
}
# Run the words that follow this word of theirs.
RUNNERS: Final[Mapping[str, tuple[str, ...]]] = {
    "uv": ("run",), "poetry": ("run",), "pipenv": ("run",), "pdm": ("run",), "hatch": ("run",), "npm": ("exec", "x"),
    "pnpm": ("exec", "dlx"), "yarn": ("exec", "dlx"), "bun": ("x",), "mise": ("exec", "x"), "bundle": ("exec",),
    "cargo": ("watch",), "podman": ("unshare",), "conda": ("run",), "mamba": ("run",), "pixi": ("run",),
    "rye": ("run",), "pipx": ("run",), "codex": ("sandbox",), "qwen": ("sandbox",), "perf": ("stat", "record", "trace"),
}  # fmt: skip
# Run packages by their name, which may have a version: npx rimraf@5.
PACKAGED: Final = frozenset({"npx", "pnpx", "bunx", "uvx", "npm", "pnpm", "yarn", "bun", "pipx", "uv"})
# What programs call it that they run others: op run, direnv exec, npm explore x --.
RUN: Final = frozenset({"run", "exec", "x", "explore", "dlx", "ssh"})
# Programs whose words run nothing but behind one of those.  Of all others that no table has, each word may.
TELLING: Final = split_names("""
    [ [[ : true false ack ag alias apk apt apt-cache apt-get aptitude awk base32 base64 basename bat batcat bc
    black break brew bunzip2 bzip2 c++ cal cargo cat cc cd chattr chgrp chmod chown cksum clang clang-format cmake
    cmp code column comm composer continue cp csplit curl cut date dd declare df diff dig dir dirname dnf dos2unix
    dpkg dpkg-query du echo eslint exit expand export expr factor false fd fdfind fg file flake8 fmt fold g++ gawk
    gcc gem getconf gh git glab gofmt grep egrep fgrep groups gunzip gzip hash head help hexdump host hostname http
    https httpie hooklatch iconv id info install ip isort jobs join jq kill killall less let ln local locate logger
    logname look ls lsof lua luarocks man md5sum mkdir mkfifo mktemp more mv mypy nano nl node npm numfmt od
    opencode paste patch pacman pgrep pidof ping pip pip3 pipx pkill pnpm pnpx pr prettier printenv printf ps pushd
    popd pwd pylint pyright pytest python python3 rbenv read readlink readonly realpath return rg rm rmdir rpm ruff
    scp sed seq service set sha1sum sha256sum sha512sum shellcheck shfmt shift shuf sleep snap sort source split srm
    ss stat strings strip sum sync systemctl tac tail tee test tldr touch tr trap tree truncate tsc tsort tty type
    typeset ulimit umask uname unalias unexpand uniq unlink unset unxz unzip uptime users uv vi vim wait wc wget
    whatis whereis which who whoami w xxd xz yarn yq yum zcat zip zsh zstd zypper . - !
""")
# Programs whose words run nothing here: those of containers and other machines, targets, and what is told to an agent.
SPEAKING: Final = split_names("""
    docker docker-compose podman nerdctl kubectl oc lxc make gmake go claude codex gemini copilot opencode qwen
    aider cursor-agent
""")
# Programs that guards are for: a word that names one is judged as if it ran there, behind a program that no table has.
GUARDED: Final = SHELLS | split_names("""
    npm pnpm yarn bun uv poetry pipx gem cargo apt-get brew dnf yum apk rm rmdir unlink shred srm rimraf del-cli dd
    mkfs wipefs mv cp tee touch truncate ln chmod chown chgrp find rsync scp git curl wget aria2c nc ncat socat ssh
    eval xargs env sudo doas su command busybox nohup timeout psql mysql mariadb sqlite3 mongosh redis-cli dropdb
    kubectl helm terraform tofu pulumi aws gcloud gsutil az docker podman systemctl crontab pip pip3 npx uvx
    hooklatch perl python python3 ruby node php sed tar kill pkill killall reboot shutdown poweroff halt
""")
# Those of them that do nothing without words.
SILENT: Final = SHELLS | {"python", "python3", "node", "ruby", "perl", "php", "ssh", "su", "psql", "mysql", "crontab"}
# Run the value of an option with the name of a file behind it, which is decided only then.
FOR_FILES: Final[Mapping[str, frozenset[str]]] = {
    "rg": split_names("--pre --hostname-bin"), "tcpdump": split_names("-z --postrotate-command"),
}  # fmt: skip
# Take shell texts as words: each that has a blank is read as one.
TEXTS: Final = frozenset({"entr", "tmux", "screen", "hyperfine", "concurrently", "nodemon"})
# Variables whose value is shell text that programs run.
VARIABLES: Final = frozenset({
    "GIT_SSH_COMMAND", "GIT_EDITOR", "GIT_SEQUENCE_EDITOR", "GIT_PAGER", "GIT_EXTERNAL_DIFF", "GIT_ASKPASS",
    "GIT_PROXY_COMMAND", "EDITOR", "VISUAL", "FCEDIT", "PAGER", "MANPAGER", "SYSTEMD_PAGER", "PROMPT_COMMAND",
    "SSH_ASKPASS", "SUDO_ASKPASS", "SUDO_EDITOR", "RSYNC_RSH", "BROWSER", "LESSOPEN", "LESSCLOSE",
})  # fmt: skip
# Variables in whose value the shell runs what stands in $(…).
PROMPTS: Final = frozenset({"PS0", "PS1", "PS2", "PS4"})
# Read the commands that they run from their input.
READERS: Final = frozenset({"at", "batch", "newgrp"})
# Read nothing themselves, so that what they run reads all of it.
PASSING: Final = SHELLS | {
    "sudo", "doas", "env", "nice", "ionice", "nohup", "setsid", "time", "timeout", "stdbuf", "command", "exec", "eval",
    "chroot", "taskset", "ssh", "docker", "podman", "nerdctl", "docker-compose", "kubectl", "oc", "busybox",
    "caffeinate",
}  # fmt: skip
AWKS: Final = frozenset({"awk", "gawk", "mawk", "nawk"})
MAKES: Final = frozenset({"make", "gmake"})
READING_FILES: Final = READERS | AWKS | MAKES | {"crontab"}  # or from a file that they are told
# Run their texts in the shell of the user, which is bash or has its language in what is read here.
LOGIN: Final = frozenset({"ssh", "su", "sg", "script", "tmux", "screen", "runuser", "flock", "parallel", "nix-shell"})
