"""Tables of the options of programs: the options that take a value, and all long ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

__all__ = ["ANY", "SYNTAX", "Syntax", "parse_syntax"]


class Syntax(NamedTuple):
    """The options of one program.

    `valued` take a value, which may be the next word; `optional` take one only if it touches them; `flags` take none.
    `is_whole`: the program has no other options.  `is_old`: the first word may be letters of options, as with tar.
    """

    valued: frozenset[str] = frozenset()
    optional: frozenset[str] = frozenset()
    flags: frozenset[str] = frozenset()
    is_whole: bool = False
    is_old: bool = False

    def meant_by(self, name: str) -> frozenset[str]:
        """Return the options that a word may mean: programs take a long option cut short, if no other begins so."""
        known = self.valued | self.optional | self.flags
        if name in known:
            return frozenset({name})
        return frozenset(option for option in known if option.startswith(name)) if len(name) > 2 else frozenset()


def parse_syntax(table: str, *, is_old: bool = False) -> Syntax:
    """Return a table that is written as its options: `-o=` takes a value, `--color?` one that touches it, `-f` none."""
    options = [*table.split(), "--help", "--version"]
    valued = frozenset(option[:-1] for option in options if option.endswith("="))
    optional = frozenset(option[:-1] for option in options if option.endswith("?"))
    return Syntax(valued, optional, frozenset(option for option in options if option[-1] not in "=?"), True, is_old)


ANY: Final = Syntax()
BACKUP: Final = (
    "-b --backup? -S= --suffix= -t= --target-directory= -T --no-target-directory -v --verbose -Z --context? "
)
OF_RIGHTS: Final = (
    "-c --changes -f --silent --quiet -v --verbose --no-preserve-root --preserve-root --reference= -R --recursive"
)
OF_OWNERS: Final = f"{OF_RIGHTS} --dereference -h --no-dereference --from= -H -L -P"
OF_GZIP: Final = (
    "-a --ascii -c --stdout -d --decompress -f --force -k --keep -l --list -L --license -n --no-name -N --name -q"
    " --quiet -r --recursive --rsyncable -S= --suffix= --synchronous -t --test -v --verbose -V --fast --best"
)
SYNTAX: Final[Mapping[str, Syntax]] = {
    "rm": parse_syntax(
        "-f --force -i -I --interactive? --one-file-system --no-preserve-root --preserve-root? -r -R --recursive -d"
        " --dir -v --verbose"
    ),
    "rmdir": parse_syntax("--ignore-fail-on-non-empty -p --parents -v --verbose"),
    "unlink": parse_syntax(""),
    "shred": parse_syntax(
        "-f --force -n= --iterations= --random-source= -s= --size= -u --remove? -v --verbose -x --exact -z --zero"
    ),
    "cp": parse_syntax(
        BACKUP
        + "-a --archive --attributes-only --copy-contents -d -f --force -i --interactive -H -l --link -L --dereference"
        " -n --no-clobber -P --no-dereference -p --preserve? --no-preserve= --parents -R -r --recursive --reflink?"
        " --remove-destination --sparse= --strip-trailing-slashes -s --symbolic-link -u --update? -x --one-file-system"
        " --debug --keep-directory-symlink"
    ),
    "mv": parse_syntax(
        BACKUP
        + "-f --force -i --interactive -n --no-clobber --strip-trailing-slashes -u --update? --debug --exchange"
        " --no-copy"
    ),
    "ln": parse_syntax(
        BACKUP
        + "-d -F --directory -f --force -i --interactive -L --logical -n --no-dereference -P --physical -r --relative"
        " -s --symbolic"
    ),
    "install": parse_syntax(
        BACKUP
        + "-c -C --compare -d --directory -D --debug -g= --group= -m= --mode= -o= --owner= -p --preserve-timestamps -s"
        " --strip --strip-program= --preserve-context"
    ),
    "chmod": parse_syntax(OF_RIGHTS + " -r -w -x -X -s -t -u -g -o -a"),  # whose modes may look like options
    "chown": parse_syntax(OF_OWNERS),
    "chgrp": parse_syntax(OF_OWNERS),
    "mkdir": parse_syntax("-m= --mode= -p --parents -v --verbose -Z --context?"),
    "touch": parse_syntax("-a -c --no-create -d= --date= -f -h --no-dereference -m -r= --reference= -t= --time="),
    "tee": parse_syntax("-a --append -i --ignore-interrupts -p --output-error?"),
    "truncate": parse_syntax("-c --no-create -o --io-blocks -r= --reference= -s= --size="),
    "sed": parse_syntax(
        "-n --quiet --silent --debug -e= --expression= -f= --file= --follow-symlinks -i? --in-place? -l= --line-length="
        " --posix -b --binary -E -r --regexp-extended -s --separate --sandbox -u --unbuffered -z --null-data"
        " --zero-terminated"
    ),
    "sort": parse_syntax(
        "-b --ignore-leading-blanks -d --dictionary-order -f --ignore-case -g --general-numeric-sort -i"
        " --ignore-nonprinting -M --month-sort -h --human-numeric-sort -n --numeric-sort -R --random-sort"
        " --random-source= -r --reverse --sort= -V --version-sort --batch-size= -c --check? -C --compress-program="
        " --debug --files0-from= -k= --key= -m --merge -o= --output= -s --stable -S= --buffer-size= -t="
        " --field-separator= -T= --temporary-directory= --parallel= -u --unique -z --zero-terminated"
    ),
    "split": parse_syntax(
        "-a= --suffix-length= --additional-suffix= -b= --bytes= -C= --line-bytes= -d --numeric-suffixes? -x"
        " --hex-suffixes? -e --elide-empty-files --filter= -l= --lines= -n= --number= -t= --separator= -u --unbuffered"
        " --verbose"
    ),
    "perl": parse_syntax(
        "-0? -a -c -C? -d? -D? -e= -E= -f -F= -i? -I= -l? -m= -M= -n -p -s -S -t -T -u -U -v -V? -w -W -x? -X"
    ),
    **{name: parse_syntax(OF_GZIP) for name in ("gzip", "gunzip")},
    **dict.fromkeys(("tar", "bsdtar", "gtar"), parse_syntax(
        "-A --catenate --concatenate -c --create --delete -d --diff --compare -r --append --test-label -t --list -u"
        " --update -x --extract --get --check-device -g= --listed-incremental= -G --incremental --hole-detection="
        " --ignore-failed-read --level= --no-check-device --no-seek -n --seek --occurrence? --sparse-version= -S"
        " --sparse -f= --file= -C= --directory= --exclude= --exclude-backups --exclude-caches --exclude-caches-all"
        " --exclude-caches-under --exclude-ignore= --exclude-ignore-recursive= --exclude-tag= --exclude-tag-all="
        " --exclude-tag-under= --exclude-vcs --exclude-vcs-ignores --no-null --no-recursion --no-unquote"
        " --no-verbatim-files-from --null --recursion -T= --files-from= --unquote --verbatim-files-from -X="
        " --exclude-from= --anchored --ignore-case --no-anchored --no-ignore-case --no-wildcards"
        " --no-wildcards-match-slash --wildcards --wildcards-match-slash -k --keep-old-files"
        " --keep-newer-files --keep-directory-symlink"
        " --no-overwrite-dir --one-top-level? --overwrite --overwrite-dir --recursive-unlink --remove-files"
        " --skip-old-files -U --unlink-first -W --verify --ignore-command-error --no-ignore-command-error -O"
        " --to-stdout --to-command= --atime-preserve? --clamp-mtime --delay-directory-restore --group= --group-map="
        " --mode= --mtime= -m --touch --no-delay-directory-restore --no-same-owner --no-same-permissions"
        " --numeric-owner --owner= --owner-map= -p --preserve-permissions --same-permissions --same-owner -s"
        " --preserve-order --same-order --sort= --acls --no-acls --no-selinux --no-xattrs --selinux --xattrs"
        " --xattrs-exclude= --xattrs-include= --force-local -F= --info-script= --new-volume-script= -L="
        " --tape-length= -M --multi-volume --rmt-command= --rsh-command= --volno-file= -b= --blocking-factor= -B"
        " --read-full-records -i --ignore-zeros --record-size= -H= --format= --old-archive --portability --pax-option="
        " --posix -V= --label= -a --auto-compress -I= --use-compress-program= -j --bzip2 -J --xz --lzip --lzma --lzop"
        " --no-auto-compress --zstd -z --gzip --gunzip --ungzip -Z --compress --uncompress --backup? --suffix= -h"
        " --dereference --hard-dereference -K= --starting-file= --newer-mtime= -N= --newer= --after-date="
        " --one-file-system -P --absolute-names --strip-components= --transform= --xform= --checkpoint?"
        " --checkpoint-action= --full-time --index-file= -l --check-links --no-quote-chars= --quote-chars="
        " --quoting-style= -R --block-number --show-defaults --show-omitted-dirs --show-snapshot-field-ranges"
        " --show-transformed-names --show-stored-names --restrict --add-file= --totals? --utc -v --verbose"
        " --warning= -w --interactive"
        " --confirmation -o --no-recursion --usage",
        is_old=True,
    )),
    "npx": parse_syntax(
        "-p= --package= -c= --call= -w= --workspace= --ws -y --yes -q --quiet --no --no-install --workspaces"
                    " --include-workspace-root --prefer-offline --registry= --cache="
    ),
}  # fmt: skip
