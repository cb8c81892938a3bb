"""The hosts that a command's words name, by tables of programs' own ways.  Knows commands, no policy."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import urlsplit

from hooklatch.guards.git_commands import git_parts
from hooklatch.guards.interpreters import codes_of
from hooklatch.shelltext.command import Command
from hooklatch.shelltext.grammar.commands import DECLARING
from hooklatch.shelltext.option_reader import list_option_values
from hooklatch.shelltext.reading.codes import CODES, strip_version
from hooklatch.shelltext.reading.containers import ENGINES, list_images
from hooklatch.shelltext.reading.options import skip_to_operands, takes_next
from hooklatch.shelltext.reading.programs import JOINED
from hooklatch.shelltext.words import Word

__all__ = ["REACHING_HOSTS", "hostname_of", "hosts_reached"]

NETWORK: Final = frozenset({
    "curl", "wget", "wget2", "http", "https", "httpie", "xh", "xhs", "curlie", "axel", "aria2c", "fetch", "lynx", "w3m",
    "links", "elinks",
})  # fmt: skip
REMOTE: Final = frozenset({
    "ssh", "scp", "sftp", "rsync", "telnet", "nc", "ncat", "socat", "ftp", "ping", "dig", "nslookup", "host", "drill",
    "whois", "traceroute", "tracepath", "mtr", "nmap", "masscan", "iperf3", "mosh", "autossh", "ssh-copy-id",
    "grpcurl", "sshfs", "tftp", "lftp", "smbclient", "finger", "getent", "chisel", "websocat", "gnutls-cli", "nikto",
    "ntpdate", "rdate", "snmpwalk", "snmpget", "hydra",
})  # fmt: skip
# Programs that connect this machine with a host of their own settings, or send to one.
TUNNELING: Final = frozenset({
    "cloudflared", "ngrok", "localtunnel", "lt", "openvpn", "wg-quick", "zrok", "bore", "frpc", "croc",
    "wormhole", "magic-wormhole", "ffsend", "mail", "mailx", "sendmail", "mutt", "neomutt", "msmtp", "swaks",
})  # fmt: skip
# A command in a text that reaches a host.
REACHING_HOSTS: Final = re.compile(rf"(?<![\w.@-])(?:{'|'.join(sorted(NETWORK | REMOTE))}|git)(?=\s+[^\s;|&])")
# Options of programs that fetch whose value is not a host: a file, a header, what is sent.
VALUES_OF_CURL: Final = """
    -A -b -c -C -d -D -e -E -F -H -m -o -P -Q -r -t -T -u -U -w -X -y -Y -z --user-agent --cookie --cookie-jar
    --continue-at --data --data-raw --data-binary --data-urlencode --data-ascii --json --dump-header --referer
    --cert --key --cacert --capath --form --form-string --header --max-time --connect-timeout --output
    --output-dir --range --upload-file --user --proxy-user --write-out --request --retry --retry-delay
    --retry-max-time --limit-rate --stderr --trace --trace-ascii --max-redirs --max-filesize --ciphers
    --netrc-file --oauth2-bearer --variable"""
VALUES_OF_WGET: Final = """
    -O -o -a -P -U -t -T -w -Q -A -R -I -X -l --output-document --output-file --append-output
    --directory-prefix --user-agent --header --post-data --post-file --body-data --body-file --method --tries
    --timeout --wait --user --password --load-cookies --save-cookies --ca-certificate --certificate --private-key
    --level --accept"""
VALUES: Final = {"curl": frozenset(VALUES_OF_CURL.split()), "wget": frozenset(VALUES_OF_WGET.split())}
# Long options of both that take no value: behind any other one, what looks like an option may be its value.
OPTIONS_WITHOUT_VALUE: Final = """
    --silent --show-error --fail --fail-with-body --location --insecure --include --head --verbose --compressed
    --globoff --get --http1.1 --http2 --remote-name --create-dirs --progress-bar --no-progress-meter --no-buffer
    --ipv4 --ipv6 --netrc --quiet --no-verbose --no-check-certificate --continue --show-progress --recursive
    --mirror --spider --content-disposition"""
WITHOUT_VALUE: Final = frozenset(OPTIONS_WITHOUT_VALUE.split())
READ_FROM_FILE: Final = {
    "curl": ("-K", "--config"), "wget": ("-i", "--input-file"), "aria2c": ("-i", "--input-file"),
}  # fmt: skip
PROXY: Final = re.compile(r"""(?i)\b(?:https?|all|ftp|socks)_proxy=['"]?([^\s'";]+)""")
# Options of other programs whose value is the host that they reach.
HOST_OPTIONS: Final = {
    "psql": ("-h", "--host"), "pg_dump": ("-h", "--host"), "mysql": ("-h", "--host"), "mysqldump": ("-h", "--host"),
    "mariadb": ("-h", "--host"), "redis-cli": ("-h",), "mongosh": ("--host",),
    "openssl": ("-connect", "-host", "-proxy"), "gpg": ("--keyserver",), "msmtp": ("--host",),
    "swaks": ("-s", "--server"), "logger": ("-n", "--server"), "etcdctl": ("--endpoints",), "kcat": ("-b",),
    "nats": ("-s", "--server"), "consul": ("-http-addr",),
    **dict.fromkeys(("mosquitto_pub", "mosquitto_sub"), ("-h", "--host")),
}  # fmt: skip
# Programs whose words may be a text that says where a database is: psql "host=db.example dbname=x".
CONNECTED: Final = frozenset({
    "psql", "pgcli", "pg_dump", "pg_dumpall", "pg_restore", "pg_isready", "pgbench", "createdb", "dropdb", "vacuumdb",
    "pg_basebackup", "pg_receivewal", "reindexdb", "clusterdb", "createuser", "dropuser",
})  # fmt: skip
CONNECTION: Final = re.compile(r"(?:\s*\w+\s*=\s*(?:'[^']*'|[^\s']+))+\s*")
OF_CONNECTION: Final = re.compile(r"\b(?:PG)?(?:host|HOST)(?:addr|ADDR)?\s*=\s*['\"]?([^\s,'\"/]+)")
OF_REGISTRIES: Final = frozenset({"crane", "oras", "regctl", "buildah"})  # whose operands are images
OF_SOCKET: Final = re.compile(r"([\w.-]+\.[\w-]+):\d+")  # a host and a port, of openssl
# Options of programs whose value is what people read: a host in it is only spoken of.
PROSE: Final = {
    **dict.fromkeys(("gh", "glab", "hub", "tea"), (
        "-t", "--title", "-b", "--body", "-d", "--description", "-m", "--message", "-n", "--notes", "-c", "--comment",
        "--subject",
    )),
    **dict.fromkeys(("hg", "svn", "jj", "bzr"), ("-m", "--message")),
}  # fmt: skip
HOST_OF_SSH: Final = re.compile(r"(?i)\s*(?:hostname|proxyjump)[\s=]+(\S+)")
URL: Final = re.compile(r"(?i)\b(?!(?:file|s3|gs):)[a-z][a-z0-9+.-]*://[^\s'\"<>]+")
PLAIN: Final = re.compile(r"[\w.:-]+")  # what a host is made of; programs read all else in different ways
LOOSE: Final = re.compile(r"(?i)(?:https?|ftps?):/*(?=[^/])")  # that programs which fetch take for a URL
DOTS: Final = str.maketrans("\u3002\uff0e\uff61", "...")  # for which programs that fetch write a full stop
SOCKET: Final = re.compile(r"/(?:dev/(?:tcp|udp)|inet[46]?/(?:tcp|udp)/\w*)/([^/\s]+)/")  # of bash and awk
IN_CODE: Final = re.compile(  # the first words of a call in any language; not the file of a database
    r"""(?<![\w.:>-])([\w.:>-]+)\s*\(+\s*(?:\d+\s*,\s*)?(?:\w+\s*=>?\s*)?['"](?:tcp['"]\s*,\s*['"])?"""
    r"""([\w-]+(?:\.[\w-]+)+)(?<!\.db)(?<!\.sqlite)(?<!\.sqlite3)(?<!\.duckdb)(?<!\.sock)(?<!\.json)(?::\d+)?['"]"""
)
CONNECTING: Final = re.compile(  # the end of its name
    r"(?i)(?:connect\w*|connection|socket(?:[.:>-]+(?:new|open|inet)\w*)*|inet\w*->new|fsockopen|dial(?!og)\w*|smtp\w*|ftp\w*"
    r"|telnet|https?connection|https?\.(?:get|request)|create_?connection)\Z"
)
MAX_NAME: Final = 64
# Options of programs that fetch which have another host reached than the URL names.
DIVERTING: Final = {
    "curl": (
        "-x", "--proxy", "--preproxy", "--socks4", "--socks4a", "--socks5", "--socks5-hostname", "--connect-to",
        "--resolve", "--doh-url",
    ),
    "wget": ("-e", "--execute"),
}  # fmt: skip
# Programs that only speak of a URL, and commands of git that do reach one.
FETCHING: Final = re.compile(  # libraries, and calls of languages
    r"urllib|urlopen|requests|http\.client|httpx|aiohttp|\bfetch\b|axios|got\(|undici|https?\.(?:get|request)|LWP|Net::HTTP"
    r"|open-uri|URI\.open|file_get_contents|curl|wget|socket|download|HTTPoison|Req\.|httpc|HttpClient|clone"
)
SPEAKING: Final = frozenset(
    {"echo", "printf", "grep", "egrep", "rg", "ag", "sed", "awk", "jq", "cat", "true", "test", "["}
)
CODED: Final = frozenset({"sed", "awk"})  # those of them whose words may run a program
REACHING: Final = frozenset(
    {"clone", "fetch", "pull", "push", "remote", "submodule", "ls-remote", "archive", "config", "-c"}
)
NAMING_FIRST: Final = frozenset({"ssh", "telnet", "ftp", "sftp", "nc", "ncat", "ping", "dig", "nslookup"})
SCP_LIKE: Final = re.compile(r"(?:[\w.-]+@)?([\w.-]+\.[\w.-]+|localhost|\[[0-9a-fA-F:]+\]):(?!//)")
COPYING: Final = frozenset({"git", "scp", "rsync"})  # to which a word without a colon is a file
COPIED: Final = re.compile(r"(?:[\w.-]+@)?([\w-][\w.-]+|\[[0-9a-fA-F:]+\]):(?!//)(?!\d+\Z)")  # scp a host:/x
# A host without a scheme: with a user, a port, a path, a query; numbers are addresses, too.
BARE_HOST: Final = re.compile(
    r"(?s)(?:[^\s/@?#]+@)?((?:[\w-]+\.)+[^\W\d_][\w-]+|\d+(?:\.\d+){2,3}|localhost|\d{8,}|0[xX][0-9a-fA-F]{6,}|\[[0-9a-fA-F:.]+\])"
    r"\.?(?:[:/?#\\].*)?"
)


def hosts_reached(command: Command) -> Iterator[str | None]:
    """Yield the hosts that a command's words name, in lower case; None for one that is decided only when it runs."""
    name = command.program or ""
    for text in (*(redirect.target.text for redirect in command.redirects), *(word.text for word in command.arguments)):
        yield from (host.lower() for host in SOCKET.findall(text))
    if strip_version(name) in CODES:
        for code in codes_of(command):
            calls = IN_CODE.findall(code)
            yield from (host.lower() for name_of_call, host in calls if CONNECTING.search(name_of_call[-MAX_NAME:]))
            if FETCHING.search(code) is not None:  # in other code an address is only a text
                yield from (hostname_of(url) for url in URL.findall(code))
    if name not in SPEAKING or name in CODED:
        for proxy in PROXY.findall(command.text):
            yield from list_word_hosts("curl", Word(proxy, "$" not in proxy))
    if (
        name in DECLARING
        or name in SPEAKING
        or (name == "git" and REACHING.isdisjoint(word.text for word in command.arguments))
    ):
        return
    if (name in TUNNELING and (command.operands or command.redirects)) or (
        name in NETWORK and "xargs" in command.within
    ):
        yield None
    if name in NAMING_FIRST:
        first = next((word for word in skip_to_operands(command.arguments, JOINED["ssh"]._replace(before=0))), None)
        if first is not None and first.is_known and not first.text.isdigit():
            yield first.text.rpartition("@")[2].partition(":")[0].lower()
    for word in command.values_of(*DIVERTING.get(name, ())):
        addresses = [word.text] if "://" in word.text else re.split(r":(?![^\[]*\])|=", word.text)
        yield from (host for address in addresses for host in list_word_hosts("curl", Word(address, word.is_known)))
    if name in READ_FROM_FILE and any(True for _ in command.values_of(*READ_FROM_FILE[name])):
        yield None
    for word in command.values_of(*HOST_OPTIONS.get(name, ())):
        for text in word.text.split(","):  # kcat -b a,b
            yield from list_word_hosts("curl", Word(text, word.is_known))
    if name in NAMING_FIRST or name == "scp":
        found = [HOST_OF_SSH.match(word.text) for word in list_option_values(command.arguments, frozenset({"-o"}))]
        yield from (match[1].rpartition("@")[2].partition(":")[0].lower() for match in found if match is not None)
    if name == "git":
        for setting in git_parts(command)[0]:
            key, _, value = setting.partition("=")
            if key.lower().endswith("proxy"):
                yield from list_word_hosts("curl", Word(value))
    if name in CONNECTED:
        texts = [word.text.removeprefix("--dbname=").removeprefix("-d") for word in command.arguments]
        texts = [text for text in texts if CONNECTION.fullmatch(text)] + re.findall(r"\bPGHOST\w*=\S+", command.text)
        for host in (host for text in texts for host in OF_CONNECTION.findall(text)):
            yield from list_word_hosts("curl", Word(host, "$" not in host))
    images = command.operands[1:] if name in OF_REGISTRIES else list_images(name, command.arguments)
    is_login = command.operands[:1] == (Word("login"),) and name in ENGINES
    for word in (*images, *(command.operands[1:] if is_login else ())):
        host, slash, _ = word.text.partition("/")
        if host != "docker.io" and (slash or is_login):  # it is meant where none is named
            yield from list_word_hosts("curl", Word(host, word.is_known))
    if name == "openssl":
        yield from (
            socket[1].lower() for word in command.arguments if (socket := OF_SOCKET.fullmatch(word.text)) is not None
        )
    prose = PROSE.get(name, ())
    valued = VALUES.get(name, frozenset[str]()).union(prose)
    taking = valued.union(DIVERTING.get(name, ()), READ_FROM_FILE.get(name, ()))  # the values of these were judged
    is_value = is_unsure = False
    for word in command.arguments:
        if not is_value and word.text.partition("=")[0] not in prose:
            yield from list_word_hosts(name, word)
        is_long = not is_value and word.text.startswith("--") and "=" not in word.text
        is_value = not is_value and not is_unsure and takes_next(word.text, taking)
        is_unsure = is_long and not is_value and word.text not in WITHOUT_VALUE


def list_word_hosts(name: str, word: Word) -> Iterator[str | None]:
    found = [hostname_of(url) for url in URL.findall(word.text)]
    if found:
        yield from (host if word.is_known else None for host in found)
    elif name in NETWORK and word.is_known and (loose := LOOSE.match(word.text)) is not None:
        yield hostname_of(f"http://{word.text[loose.end() :]}")
    elif name in NETWORK and not word.text.startswith("-"):
        if not word.is_known:
            yield None
        elif (bare := BARE_HOST.fullmatch(word.text.translate(DOTS))) is not None:
            yield bare[1].lower()
    elif name in REMOTE or name == "git":
        text = word.text.partition("=")[2] if name == "git" and word.text.startswith("--") else word.text
        if (like := (SCP_LIKE if name == "git" else COPIED).match(text)) is not None:
            yield like[1].lower()
        elif (
            name not in COPYING
            and not word.text.startswith("-")
            and (bare := BARE_HOST.fullmatch(word.text)) is not None
        ):
            yield bare[1].lower()
        elif name in NAMING_FIRST and not word.is_known:
            yield None


def hostname_of(url: str) -> str | None:
    """Return the host of a URL in lower case; None if it names none, or if programs would read it differently."""
    try:
        host = urlsplit(url.replace("\\", "/")).hostname  # as browsers do
    except ValueError:
        return None
    if not host or PLAIN.fullmatch(host := host.translate(DOTS)) is None:
        return None
    return host.lower().rstrip(".")
