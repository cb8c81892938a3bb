"""Commands of git: their settings, their verb and its options.  Knows git, but no policy."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Final

from hooklatch.shelltext.command import Command
from hooklatch.shelltext.option_reader import Option, Options, list_option_values, parse_options
from hooklatch.shelltext.option_syntax import ANY, Syntax, parse_syntax
from hooklatch.shelltext.reading.inner import split_git_verb
from hooklatch.shelltext.words import Word

__all__ = [
    "list_files_written", "git_options", "git_parts", "find_git_places", "is_of_person", "refs_pushed",
    "strange_program",
]  # fmt: skip

OF_TREES: Final = (
    "-q --quiet --recurse-submodules? --progress -m --merge --conflict= -2 --ours -3 --theirs -p --patch"
    " --ignore-skip-worktree-bits --pathspec-from-file= --pathspec-file-nul --overlay --no-overlay --no-progress"
    " -U= --unified= --inter-hunk-context= "
)
OF_HEADS: Final = "--guess --no-guess -d --detach -t --track? --no-track --orphan= --ignore-other-worktrees "
OF_REFS: Final = (
    "--contains= --no-contains= --merged= --no-merged= --sort= --points-at= --format= --color? --no-color --column?"
    " --no-column -i --ignore-case --create-reflog -l --list -v --verbose -q --quiet --omit-empty "
)
OF_FETCH: Final = (
    "-v --verbose -q --quiet --all --no-all --set-upstream -a --append --atomic --upload-pack= -f --force -m --multiple"
    " -t --tags -n --no-tags -j= --jobs= --prefetch -p --prune --no-prune -P --prune-tags --recurse-submodules?"
    " --no-recurse-submodules --dry-run --write-fetch-head --no-write-fetch-head -k --keep -u --update-head-ok"
    " --progress --depth= --shallow-since= --shallow-exclude= --deepen= --unshallow --refetch --update-shallow"
    " --refmap="
    " -o= --server-option= -4 --ipv4 -6 --ipv6 --negotiation-tip= --negotiate-only --filter= --auto-maintenance"
    " --auto-gc --show-forced-updates --no-show-forced-updates --write-commit-graph --stdin --porcelain "
)
OF_MERGES: Final = (
    "-n --stat --no-stat --summary --log? --no-log --squash --no-squash --commit --no-commit -e --edit --no-edit"
    " --cleanup= --ff --no-ff --ff-only --rerere-autoupdate --verify-signatures --no-verify-signatures -s= --strategy="
    " -X= --strategy-option= -S? --gpg-sign? --no-gpg-sign --autostash --no-autostash --signoff --no-signoff --verify"
    " --no-verify --allow-unrelated-histories "
)
# The options of git itself, in front of the verb.
OWN: Final = parse_syntax(
    "-C= -c= --git-dir= --work-tree= --namespace= --config-env= --attr-source= --super-prefix= -p --paginate -P"
    " --no-pager --bare --no-replace-objects --literal-pathspecs --no-literal-pathspecs --glob-pathspecs"
    " --noglob-pathspecs --icase-pathspecs --exec-path? --html-path --man-path --info-path --no-optional-locks"
    " --no-lazy-fetch --no-advice --list-cmds="
)
# The options of verbs; a verb that is not here may have any option.
OPTIONS: Final[Mapping[str, Syntax]] = {
    "push": parse_syntax(
        "-v --verbose -q --quiet --repo= --all --branches --mirror -d --delete --tags -n --dry-run --porcelain -f"
        " --force --force-with-lease? --no-force-with-lease --force-if-includes --recurse-submodules="
        " --no-recurse-submodules --thin --no-thin --receive-pack= --exec= -u --set-upstream --progress --prune"
        " --verify"
        " --no-verify --follow-tags --no-follow-tags --signed? --no-signed --atomic --no-atomic -o= --push-option= -4"
        " --ipv4 -6 --ipv6"
    ),
    "send-pack": parse_syntax(
        "-v --verbose -q --quiet --receive-pack= --exec= --remote= --all -n --dry-run --mirror -f --force --signed?"
        " --push-option= --progress --thin --atomic --stateless-rpc --stdin --helper-status --force-with-lease?"
        " --force-if-includes"
    ),
    "commit": parse_syntax(
        "-q --quiet -v --verbose -F= --file= --author= --date= -m= --message= -c= --reedit-message= -C="
        " --reuse-message="
        " --fixup= --squash= --reset-author --trailer= -s --signoff --no-signoff -t= --template= -e --edit --no-edit"
        " --cleanup= --status --no-status -S? --gpg-sign? --no-gpg-sign -a --all -i --include --interactive -p --patch"
        " -o --only -n --verify --no-verify --dry-run --short --branch --ahead-behind --porcelain --long -z --null"
        " --amend --no-post-rewrite -u? --untracked-files? --pathspec-from-file= --pathspec-file-nul --allow-empty"
        " --allow-empty-message"
    ),
    "checkout": parse_syntax(OF_TREES + OF_HEADS + "-b= -B= -l -f --force --overwrite-ignore --no-overwrite-ignore"),
    "switch": parse_syntax(
        OF_TREES + OF_HEADS + "-c= --create= -C= --force-create= --discard-changes -f --force --overwrite-ignore"
    ),
    "restore": parse_syntax(OF_TREES + "-s= --source= -S --staged -W --worktree --ignore-unmerged"),
    "reset": parse_syntax(
        "-q --quiet --no-refresh --refresh --mixed --soft --hard --merge --keep --recurse-submodules? -p --patch -N"
        " --intent-to-add --pathspec-from-file= --pathspec-file-nul -U= --unified= --inter-hunk-context="
    ),
    "clean": parse_syntax("-q --quiet -n --dry-run -f --force -i --interactive -d -e= --exclude= -x -X"),
    "branch": parse_syntax(
        OF_REFS + "-t --track? --no-track -u= --set-upstream-to= --unset-upstream --abbrev? --no-abbrev -r --remotes -a"
        " --all -d --delete -D -m --move -M -c --copy -C --show-current --edit-description -f --force"
        " --recurse-submodules"
    ),
    "tag": parse_syntax(
        OF_REFS + "-n? -d --delete --verify -a --annotate -m= --message= -F= --file= -e --edit -s --sign --no-sign"
        " --cleanup= -u= --local-user= -f --force --trailer="
    ),
    "rm": parse_syntax(
        "-n --dry-run -q --quiet --cached -f --force -r --ignore-unmatch --sparse --pathspec-from-file="
        " --pathspec-file-nul"
    ),
    "gc": parse_syntax("-q --quiet --prune? --no-prune --cruft --no-cruft --aggressive --auto --force "
                       "--keep-largest-pack"),
    "fetch": parse_syntax(OF_FETCH),
    "pull": parse_syntax(OF_FETCH.replace("-n --no-tags", "--no-tags").replace("-j= --jobs=", "-j? --jobs?")
        + OF_MERGES + "-r? --rebase? --no-rebase"),
    "merge": parse_syntax(
        OF_MERGES + "-m= --message= -F= --file= --into-name= -v --verbose -q --quiet --abort --quit --continue"
        " --progress --overwrite-ignore"
    ),
    "rebase": parse_syntax(
        OF_MERGES + "--onto= --keep-base -q --quiet -v --verbose --committer-date-is-author-date --reset-author-date"
        " --ignore-whitespace --whitespace= -f --force-rebase --continue --skip --abort --quit --edit-todo"
        " --show-current-patch --apply -m --merge -i --interactive --empty= --autosquash --no-autosquash --update-refs"
        " --no-update-refs -x= --exec= -r? --rebase-merges? --no-rebase-merges --fork-point --no-fork-point --root"
        " --reschedule-failed-exec --reapply-cherry-picks -C="
    ),
    "am": parse_syntax(
        "-i --interactive -b -3 --3way -q --quiet -s --signoff -u --utf8 -k --keep --keep-non-patch -m --message-id"
        " --keep-cr --no-keep-cr -c --scissors --quoted-cr= --whitespace= --ignore-space-change --ignore-whitespace"
        " --directory= --exclude= --include= -C= -p= --patch-format= --reject --resolvemsg= --continue -r --resolved"
        " --skip --abort --quit --show-current-patch? --retry --allow-empty --committer-date-is-author-date"
        " --ignore-date --rerere-autoupdate -S? --gpg-sign? --no-gpg-sign --empty= -n --verify --no-verify"
    ),
    "worktree": parse_syntax(
        "-f --force -b= -B= -d --detach --checkout --no-checkout --lock --reason= -q --quiet --track --no-track"
        " --guess-remote --orphan --porcelain -z -v --verbose --expire= -n --dry-run"
    ),
    "clone": parse_syntax(
        "-v --verbose -q --quiet --progress --reject-shallow -n --no-checkout --checkout --bare --mirror -l --local"
        " --no-local --no-hardlinks --hardlinks -s --shared --recursive? --recurse-submodules? -j= --jobs= --template="
        " --reference= --reference-if-able= --dissociate -o= --origin= -b= --branch= --revision= -u= --upload-pack="
        " --depth= --shallow-since= --shallow-exclude= --single-branch --no-single-branch --no-tags --tags"
        " --shallow-submodules --separate-git-dir= --ref-format= -c= --config= --server-option= -4 --ipv4 -6 --ipv6"
        " --filter= --also-filter-submodules --remote-submodules --sparse --bundle-uri="
    ),
    "archive": parse_syntax(
        "-o= --output= --format= --prefix= --add-file= --add-virtual-file= --worktree-attributes -v --verbose"
        " --mtime= -l --list --remote= --exec= -0 -1 -2 -3 -4 -5 -6 -7 -8 -9"
    ),
    "init": parse_syntax(
        "--template= --bare --shared? -q --quiet --separate-git-dir= -b= --initial-branch= --object-format="
        " --ref-format="
    ),
    "checkout-index": parse_syntax(
        "-a --all -f --force -q --quiet -n --no-create --ignore-skip-worktree-bits --prefix="
        " --stage= --temp -u --index -z --stdin"
    ),
    "read-tree": parse_syntax(
        "-m --reset -u --update -i -n --dry-run -v --verbose --trivial --aggressive --prefix= --index-output="
        " --no-sparse-checkout"
        " --empty -q --quiet --recurse-submodules? --exclude-per-directory= --debug-unpack"
    ),
}  # fmt: skip
# Settings that run programs, leave checks out, or say who commits, where git works, or what a push is for.
OF_PERSONS: Final = (
    "user.*", "author.*", "committer.*", "core.hookspath", "core.sshcommand", "core.editor", "core.pager",
    "core.fsmonitor", "core.askpass", "core.gitproxy", "core.alternaterefscommand", "core.worktree", "pager.*",
    "alias.*", "credential.*", "filter.*", "include.*", "includeif.*", "gpg.*", "url.*", "remote.*.push",
    "remote.*.mirror", "remote.*.receivepack", "remote.*.uploadpack", "remote.*.vcs", "push.default", "branch.*.merge",
    "sequence.editor", "diff.external", "diff.*.command", "diff.*.textconv", "merge.*.driver", "mergetool.*.cmd",
    "mergetool.*.path", "difftool.*.cmd", "difftool.*.path", "guitool.*", "man.*", "browser.*", "web.browser",
    "instaweb.*", "interactive.difffilter", "sendemail.*", "trailer.*", "tar.*", "imap.tunnel", "submodule.*.update",
    "init.templatedir", "uploadpack.*", "uploadarchive.*", "receive.*", "protocol.*", "hook.*", "lfs.*customtransfer*",
    "commit.gpgsign", "tag.gpgsign",
)  # fmt: skip
# Options of verbs whose value is a file that is written; those that show differences all take --output.
WRITING: Final = {
    "config": ("-f", "--file"), "archive": ("-o", "--output"), "format-patch": ("-o", "--output-directory", "--output"),
    "clone": ("--separate-git-dir",), "init": ("--separate-git-dir",), "checkout-index": ("--prefix",),
    "read-tree": ("--index-output",), "fast-export": ("--export-marks",), "bugreport": ("-o", "--output-directory"),
    "diagnose": ("-o", "--output-directory"), "credential-store": ("--file",),
}  # fmt: skip
# Verbs that have another program run at the other end, and their options that say which.
REACHING: Final = frozenset({"fetch", "pull", "push", "clone", "ls-remote", "archive", "send-pack", "fetch-pack"})
RUN_THERE: Final = ("--upload-pack", "--receive-pack", "--exec")
OF_GIT: Final = re.compile(r"git[ -](?:upload|receive)-(?:pack|archive)")
# Harmless values of a pager or an editor: programs that show a text, or do nothing.
SHOWING: Final = re.compile(r"(?:cat|less|more|true|false|:|)(?: -[A-Za-z]+)*")
SHOWN_BY: Final = ("core.pager", "pager.*", "core.editor", "sequence.editor")


def git_parts(command: Command) -> tuple[list[str], str, list[str]]:
    """Return the settings of a command of git (`-c`, `--config-env`), its verb, and the words behind the verb."""
    verb, rest = split_git_verb(command.arguments)
    own = command.arguments[: len(command.arguments) - len(rest)]
    settings = [word.text for word in list_option_values(own, ("-c", "--config-env"), OWN)]
    if verb == "clone":
        settings += [word.text for word in list_option_values(rest, ("-c", "--config"), OPTIONS[verb])]
    return settings, verb, [word.text for word in rest]


def git_options(command: Command) -> Options:
    """Return the options behind the verb of a command of git, and the other words."""
    verb, rest = split_git_verb(command.arguments)
    return parse_options(rest, OPTIONS.get(verb, ANY))


def find_git_places(command: Command) -> tuple[list[str], str | None]:
    """Return the folders that git changes to (`-C`), in their order, and its repository, if an option names it."""
    folders = [folder.text for folder in list_named_folders(command)]
    repositories = [
        option.value.text
        for option in list_own_options(command)
        if option.may_be("--git-dir") and option.value is not None
    ]
    return folders, repositories[-1] if repositories else None


def list_files_written(command: Command) -> Iterator[Word]:
    """Yield the files and folders that a command of git writes, below the folders that `-C` names."""
    folders = list_named_folders(command)
    for word in list_named_files(command):
        parts = [*folders, word]
        yield Word(os.path.join(*(part.text for part in parts)), all(part.is_known for part in parts))


def list_named_folders(command: Command) -> list[Word]:
    """Return the folders that git changes to, in their order: -C."""
    return [option.value for option in list_own_options(command) if option.name == "-C" and option.value is not None]


def list_own_options(command: Command) -> list[Option]:
    """Return the options before the verb, which are git's own."""
    _, rest = split_git_verb(command.arguments)
    return parse_options(command.arguments[: len(command.arguments) - len(rest)], OWN).options


def list_named_files(command: Command) -> Iterator[Word]:
    """Yield the files and folders that a command of git writes, as its words name them."""
    _, verb, rest = git_parts(command)
    options = git_options(command)
    operands = options.operands
    if verb in ("rm", "mv") and not options.has("--cached"):  # which leaves the file as it is
        yield from operands
    elif (verb == "bundle" and rest[:1] == ["create"]) or (verb == "worktree" and rest[:1] in (["add"], ["move"])):
        yield from operands[1:]
    elif verb in ("clone", "init") and len(operands) > (verb == "clone"):
        yield operands[-1]
    behind = command.arguments[len(command.arguments) - len(rest) :]
    yield from list_option_values(behind, WRITING.get(verb, ("--output",)), OPTIONS.get(verb))


def strange_program(command: Command) -> str | None:
    """Return what an option has git run in place of its own program at the other end; None if nothing."""
    verb, rest = split_git_verb(command.arguments)
    if verb not in REACHING:
        return None
    names = (*RUN_THERE, "-u") if verb == "clone" else RUN_THERE
    named = list_option_values(rest, names, OPTIONS.get(verb))
    return next((word.text for word in named if OF_GIT.fullmatch(word.text) is None), None)


def refs_pushed(options: Options) -> list[Word]:
    """Return what a push names behind the repository, which an option may name, too."""
    return options.operands if options.has("--repo") else options.operands[1:]


def is_of_person(setting: str) -> bool:
    """Return whether only a person sets a setting of git, `key=value` or its key, by `OF_PERSONS`."""
    key, mark, value = setting.partition("=")
    key = key.lower()
    if mark and SHOWING.fullmatch(value) and any(fnmatchcase(key, pattern) for pattern in SHOWN_BY):
        return False
    return any(fnmatchcase(key, pattern) for pattern in OF_PERSONS)
