"""Commands that delete what a service keeps: databases, clouds, clusters, buckets.  By verbs,
not by lists of names.

Knows commands, no policy.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from hooklatch.shelltext.command import Command
from hooklatch.shelltext.words import Word

__all__ = ["DROPS", "data_lost"]

# Programs that take statements of a database by their words, their input, or a file.
DATABASES: Final = frozenset({
    "psql", "pgcli", "mysql", "mariadb", "mycli", "sqlite3", "sqlite", "litecli", "duckdb", "clickhouse-client",
    "clickhouse", "clickhouse-local", "mongosh", "mongo", "sqlcmd", "cockroach", "usql", "bq", "snowsql", "snow",
    "cqlsh", "sqlplus", "isql", "tsql", "trino", "presto", "beeline", "hive", "impala-shell", "spark-sql", "influx",
    "cypher-shell", "redis-cli", "valkey-cli", "keydb-cli", "ysqlsh", "dolt", "turso", "osqueryi", "rsql", "vsql",
    "gsql", "bcp", "mssql-cli", "wrangler", "supabase", "dbt", "surreal", "etcdctl", "edgedb", "gel", "arangosh",
    "memcached-tool", "athenacli",
})  # fmt: skip
DROPPING: Final = frozenset({"dropdb", "dropuser"})
REMARKS: Final = re.compile(r"(?s)/\*.*?\*/")
NOTES: Final = re.compile(r"--[^\n]*")
DROPS: Final = re.compile(
    r"(?i)\b(?:drop|truncate)\s+[\w\"`\[$]|\bdelete\s+from\s+[\w.\"`\[\]$]+\s*(?:;|\Z|where\s+(?:true|1\s*=\s*1|1\s*(?:;|\Z)))"
    r"|\.(?:drop(?:Database|Index(?:es)?|Collection)?|truncate)\(|\b(?:deleteMany|remove)\(\s*(?:\{\s*\})?\s*\)"
    r"|\b(?:flushall|flushdb)\b|\bdetach\s+delete\b|\bremove\s+(?:table|database|namespace)\b"
)
# What a verb of a service is that takes away what it keeps, by itself or before a mark: terminate-instances.
VERBS: Final = (
    "delete|destroy|terminate|remove|rm|rb|purge|drop|wipe|prune|erase|uninstall|deprovision|undeploy|nuke|obliterate"
    "|teardown|decommission|deregister|empty|unpublish|flush|truncate|reset|drain|mb--force|batch-delete|force-delete"
    "|schedule-key-deletion|abandon|undefine|forget|release-address|del|down"
)
VERB: Final = re.compile(
    rf"(?:[\w.]+:)*(?:{VERBS})(?:[-:_][\w:-]*)?|[a-z]+-(?:delete|destroy|terminate|remove|purge)(?:-[\w-]+)?"
)
# How many words of each service may be its verb: those that stand first, apart from options.
SERVICES: Final[Mapping[str, int]] = {
    "aws": 2, "gcloud": 5, "az": 5, "gsutil": 1, "s3cmd": 1, "s5cmd": 1, "rclone": 1, "mc": 2, "b2": 2, "kubectl": 1,
    "oc": 1, "helm": 1, "terraform": 2, "tofu": 2, "terragrunt": 2, "pulumi": 2, "heroku": 1, "fly": 3, "flyctl": 3,
    "vercel": 2, "now": 1, "netlify": 2, "gh": 2, "glab": 2, "hub": 1, "doctl": 4, "linode-cli": 2, "hcloud": 2,
    "oci": 4, "ibmcloud": 3, "scw": 3, "vultr-cli": 3, "exo": 3, "openstack": 3, "ovhcloud": 3, "yc": 4, "aliyun": 2,
    "wrangler": 3, "supabase": 2, "firebase": 1, "railway": 1, "render": 2, "eksctl": 1, "kops": 1, "kind": 1, "k3d": 2,
    "minikube": 1, "nomad": 2, "consul": 2, "vault": 3, "etcdctl": 1, "argocd": 2, "flux": 1, "istioctl": 1,
    "velero": 2, "cf": 1, "serverless": 1, "sls": 1, "cdk": 1, "sam": 1, "copilot": 2, "eb": 1, "sst": 1, "amplify": 1,
    "rabbitmqctl": 1, "rabbitmqadmin": 1, "npm": 1, "gem": 1, "cargo": 1, "neonctl": 2, "neon": 2, "pscale": 2,
    "turso": 2, "upctl": 3, "atlas": 3, "confluent": 3, "databricks": 2, "snow": 2, "bq": 1, "packer": 1, "vagrant": 1,
    "multipass": 1, "lxc": 1, "incus": 1, "virsh": 1, "kafka-topics": 0, "civo": 2, "stripe": 2, "okteto": 1,
    "porter": 1, "mongocli": 3, "redis-cli": 1, "valkey-cli": 1, "elasticdump": 0, "zfs": 1, "juju": 1, "dokku": 1,
    "mysqladmin": 1, "restic": 1, "borg": 1, "dropdb": 0, "prisma": 2, "influx": 1, "flyway": 1, "liquibase": 1,
}  # fmt: skip
# Verbs of these only that take away what can be had again, or that others use for it.
HARMLESS: Final[Mapping[str, frozenset[str]]] = {
    "npm": frozenset({"rm", "remove", "uninstall", "prune"}),
    "cargo": frozenset({"rm", "remove", "uninstall"}),
    "gem": frozenset({"uninstall"}),
    "copilot": frozenset({"down"}),
    "redis-cli": frozenset({"del", "reset"}),
    "valkey-cli": frozenset({"del", "reset"}),
    "turso": frozenset({"down"}),
    "gh": frozenset({"release", "reset"}),
    "sst": frozenset({"reset"}),
}
# Those whose verb alone does less, so that the verb has to be one of these.
ONLY: Final[Mapping[str, frozenset[str]]] = {
    "kubectl": frozenset({"delete", "drain"}),
    "oc": frozenset({"delete"}),
    "vagrant": frozenset({"destroy"}),
    "prisma": frozenset({"reset"}),
    "packer": frozenset(),
    "supabase": frozenset({"delete", "reset", "remove", "rm"}),
    "terraform": frozenset({"destroy", "rm", "delete"}),
    "tofu": frozenset({"destroy", "rm", "delete"}),
    "multipass": frozenset({"delete", "purge"}),
    "flyway": frozenset({"clean"}),
    "liquibase": frozenset({"dropAll", "drop-all"}),
}
# With these options other verbs take away, too.
BY_OPTION: Final[Mapping[str, tuple[tuple[str, str], ...]]] = {
    "kubectl": (("replace", "--force"), ("apply", "--prune")),
    "oc": (("replace", "--force"), ("apply", "--prune")),
    "terraform": (("apply", "-destroy"), ("apply", "--destroy")),
    "tofu": (("apply", "-destroy"), ("apply", "--destroy")),
    "aws": (("sync", "--delete"), ("cloudformation", "delete-stack")),
    "gsutil": (("rsync", "-d"),),
    "gh": (("api", "DELETE"), ("api", "-XDELETE"), ("api", "--method=DELETE")),
    "glab": (("api", "DELETE"), ("api", "-XDELETE")),
    "kafka-topics": (("", "--delete"),),
    "kafka-topics.sh": (("", "--delete"),),
    "docker": (
        ("compose", "--volumes"), ("system", "prune"), ("volume", "rm"), ("volume", "prune"), ("volume", "remove"),
        ("stack", "rm"), ("service", "rm"), ("secret", "rm"),
    ),
    "podman": (("system", "prune"), ("volume", "rm"), ("volume", "prune"), ("system", "reset")),
    "docker-compose": (("down", "-v"), ("down", "--volumes")),
    "nomad": (("stop", "-purge"),),
    "alembic": (("downgrade", "base"),),
    "knex": (("migrate:rollback", "--all"),),
}  # fmt: skip
TASK: Final = re.compile(
    r"(?:[\w]+[:.])*(?:db|database|ecto|migrate|schema|doctrine:database)[:.](?:drop|reset|wipe|fresh|purge|truncate)(?:[:.]\w+)*"
)
TASKED: Final = frozenset({
    "manage.py", "python", "python3", "dotnet", "rails", "rake", "mix", "artisan", "php", "sequelize", "sequelize-cli",
    "npx", "console", "adonis", "prisma",
})  # fmt: skip
TASKS: Final = re.compile(
    r"manage\.py (?:flush|reset_db|reset_schema)\b|\bef database drop\b|\bdb push .*--force-reset\b|\bdb:schema:load\b"
)
REHEARSED: Final = frozenset(
    {"--dry-run", "--dryrun", "--dry-run=client", "--dry-run=server", "--help", "-h", "--what-if"}
)


def data_lost(command: Command) -> str | None:
    """Return what is lost if a command deletes what a service keeps; None if it does not, as far as its words say."""
    name, words = command.program or "", command.arguments
    if name in DROPPING or (name in DATABASES and any(map(DROPS.search, list_statements(command)))):
        return "deletes data of a database"
    if name in DATABASES and command.fed_by == "?" and is_reading_statements(command):
        return "gives a database what nobody has seen"
    if {word.text for word in words} & REHEARSED:
        return None
    if name in SERVICES and any(is_destroying(name, word) for word in list_verbs(command, SERVICES[name])):
        return "deletes what a service keeps"
    texts = [word.text for word in words]
    for verb, option in BY_OPTION.get(name, ()):
        if (not verb or verb in texts) and (option in texts or any(text.startswith(f"{option}=") for text in texts)):
            return "deletes what a service keeps"
    if name in ("docker", "podman") and "compose" in texts and "down" in texts and command.has_option("-v"):
        return "deletes what a service keeps"
    if name in TASKED and (any(map(TASK.fullmatch, texts[:4])) or TASKS.search(" ".join((name, *texts)))):
        return "deletes data of a database"
    return None


def list_statements(command: Command) -> Iterator[str]:
    """Yield what a database may be told: by words, by its input, and by a file that the same text has written."""
    text = " ".join(word.text for word in command.arguments)
    yield from (text, REMARKS.sub(" ", text))
    for read in (*(redirect.target for redirect in command.redirects), *filter(None, (command.given,))):
        yield NOTES.sub(" ", REMARKS.sub(" ", read.text))


def is_reading_statements(command: Command) -> bool:
    """Return whether a database takes statements from its input, since no option gives it some."""
    return not command.has_option("-c", "--command", "-f", "--file", "-e", "--execute", "--eval", "-q", "--query")


def list_verbs(command: Command, count: int) -> Iterator[Word]:
    """Yield the words that may be the verb of a service; what follows an option may be its value, and not be one."""
    is_value = False
    for word in command.arguments:
        if count <= 0:
            return
        if word.text.startswith("-"):
            is_value = "=" not in word.text
            continue
        yield word
        count -= not is_value
        is_value = False


def is_destroying(name: str, word: Word) -> bool:
    if name in ONLY:
        return word.text in ONLY[name]
    return VERB.fullmatch(word.text) is not None and word.text not in HARMLESS.get(name, ())
