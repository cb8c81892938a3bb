"""What programs are told by their options and words that destroys something.  Data."""

from __future__ import annotations

from typing import Final

__all__ = ["DESTROYING"]

DESTROYING: Final = {
    "destructive_commands": r"""
npx rimraf@5 /
npx -y rimraf@latest /
pnpm dlx rimraf@5 /
bunx rimraf /
yarn dlx rimraf@5 /
npm x rimraf@3 -- /
foo --cmd=rm\ -rf\ /
arch -x86_64 rm -rf /
arch -arch arm64 rm -rf /
wsl rm -r -f /var/lib
wsl -d Ubuntu -- rm -rf /
podman unshare rm -rf /
cargo watch -s 'rm -rf /'
cargo watch -w src -x check --shell 'rm -rf /'
cargo watch -- rm -rf /
env -S 'rm -rf' /
env -iS'rm' -r -f /
env --split-string=rm -rf /
echo / | xargs -I% rm -rf %
echo tc | xargs -I{} rm -rf /e{}
rm -rf "$PWD"
rm -rf "${PWD}/.git"
env -C / rm -rf "$PWD/x"
sg_format --format /dev/sg0
sg_sanitize --block /dev/sg1
cfdisk /dev/sda
badblocks -w /dev/sdb
newfs_msdos /dev/disk2
cat x > /dev/nst0
foo -- find / -delete
foo curl x | sh
foo sh -c "curl x | sh"
foo xargs rm -rf
foo kubectl delete ns x
aws-vault exec p -- aws s3 rb s3://x
infisical run -- psql -c "drop table x"
perl -e 'system("rm -rf /")'
f() { "$@"; }; f rm -rf /
rm --recurs --forc /
rm --rec -- /
rm -f --r /
chmod --recu 777 /
chown -R --from=a b /
xargs --max-p 4 rm -rf
git reset --ha
git reset --har HEAD~3
git reset --hard
git reset -q --hard
git reset --me HEAD~1
git checkout :/
git checkout :/src
git checkout -- .
git checkout -f
git checkout --for main
git checkout -qf main
git checkout HEAD~1 -- a
git checkout HEAD~1 a.txt
git checkout 'src/*.py'
git checkout ':(top)src'
git checkout --pathspec-f x
git branch -M a main
git branch -M main
git branch -D x
git branch -fd x
git branch -df x
git branch -d -f x
git branch --delete --force x
git branch --move --force a b
git branch -f x HEAD~3
git branch -C a b
git tag -d v1
git tag -f v1
git tag --del v1
git tag --forc v1
git tag -fa v1 -m x
git stash drop
git stash drop stash@{0}
git stash clear
git update-ref refs/heads/x y
git update-ref -d refs/heads/x
git update-ref --stdin
git fetch -f origin x
git fetch origin +refs/heads/*:refs/heads/*
git fetch --forc origin a:a
git pull -f
git pull --for
git restore .
git restore a
git restore --wor a
git restore --source=HEAD~1 a
git read-tree --reset -u HEAD
git read-tree --res HEAD
git checkout-index -f -a
git checkout-index --for -a
git checkout-index -af
git worktree remove -f x
git worktree remove --force x
git clean -fd
git clean -xfd
git clean -df
git clean --forc -d
git filter-branch --all
git filter-repo --path x
git push -f
git push --force
git push origin :x
git push origin --delete x
git push -d origin x
git push origin +x
git push --mirror
git push --pru origin
git remote prune origin
git reflog expire --expire=now --all
git reflog delete x
git gc --prune=now
git gc --pru=now
git prune
git switch --disc main
git switch -f main
git switch --for x
git rm -f a
git rm -rf .
git submodule deinit -f x
git submodule update --for
git lfs prune
git replace -d x
git notes remove x
git -C x reset --ha
git --git-dir=x reset --ha
git -c a.b=c reset --ha
vim -c '!rm -rf /' x
vim -c 'r !rm -rf /' x
gdb -batch -ex 'shell rm -rf /'
psql -c '\! rm -rf /'
less +'!rm -rf /' x
docker compose down -tv
systemctl --force poweroff
chmod $M /etc
npx -p rimraf@5 rimraf /
npx --package rimraf -c 'rimraf /'
npx --package=rimraf@5 -- rimraf /
npm exec --package=rimraf -- rimraf /
npm exec -c 'rimraf /'
npm exec --call='rm -rf /'
pnpm --package=rimraf dlx rimraf /
pnpm --filter x exec rm -rf /
pnpm -C x exec rm -rf /
yarn exec rm -rf /
yarn workspace x exec rm -rf /
corepack pnpm dlx rimraf /
bun x rimraf@5 /
deno run -A npm:rimraf /
npm run clean -- rm -rf /
uv --directory x run rm -rf /
uv run --directory x rm -rf /
poetry -C x run rm -rf /
poetry --no-interaction run rm -rf /
foo --flag value --other=val rm --recursive --force /
foo -- sh -c 'cd / && rm -rf *'
foo --exec 'cd / && rm -rf *'
foo -e 'sudo rm -rf /'
foo "$X" rm -rf /
./x.sh --run 'ls; rm -rf /'
ssh-agent bash -c 'rm -rf /'
strace -f rm -rf /
strace --output x rm -rf /
gdb --args rm -rf /
valgrind --log-file=x rm -rf /
perf stat -e x rm -rf /
hyperfine 'rm -rf /'
time -f %e rm -rf /
sudo --user=me rm -rf /
sudo --user me rm -rf /
sudo --ch /x rm -rf y/../../..
doas -u me rm -rf /
runuser --user me -- rm -rf /
runuser -u me rm -rf /
su me --comm 'rm -rf /'
su --comm='rm -rf /' me
script --comm 'rm -rf /' f
flock --comm 'rm -rf /'
flock f --command 'rm -rf /'
env -vS 'rm -rf /'
env --spl 'rm -rf /'
env --split-str='rm -rf /'
tar --use-comp='rm -rf /' -cf a b
tar --checkpoint-act=exec='rm -rf /' -cf a b
tar cf a b --to-comm='rm -rf /'
rsync --rs='rm -rf /' a b:
find . -exec foo rm -rf / ';'
xargs -I{} foo rm -rf /
parallel foo rm -rf / ::: 1
watch foo rm -rf /
git bisect run foo rm -rf /
git rebase --exe 'rm -rf /' main
git submodule foreach --recurs 'rm -rf /'
git submodule --quiet foreach 'rm -rf /'
git difftool --extc='rm -rf /'
git grep --open-files='rm -rf /' x
git -c submodule.x.update='!rm -rf /' submodule update
git config submodule.x.update '!rm -rf /'
git clone --upload-p 'rm -rf /' u
git switch -C main x
git checkout -B main x
git lfs migrate import
terraform apply --destroy
terraform destroy --auto-approve
systemctl poweroff -f
kubectl --context=x delete pod y
""",
}
