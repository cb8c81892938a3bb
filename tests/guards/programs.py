"""What programs are told by their options and words, by the guard that stops it; and what none of them stops.  Data."""

from __future__ import annotations

from typing import Final

__all__ = ["QUIET", "STOPPED"]

STOPPED: Final = {
    "destructive_commands": r"""
npx rimraf@5 /
npx -y rimraf@latest /
pnpm dlx rimraf@5 /
bunx rimraf /
yarn dlx rimraf@5 /
npm x rimraf@3 -- /
foo --cmd=rm\ -rf\ /
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
""",
    "git_rules": r"""
foo git push -f
direnv exec . git push -f
op run -- git push --force
npm explore x -- git push -f
foo --cmd='git push -f'
foo "git push -f"
git push --fo
git push --f
git push --forc origin x
git push -uf origin x
git push -fu origin x
git push -qf
git push --mirr
git push --al
git push origin +x
git commit --no-verify -m x
git commit --no-v -m x
git commit --no-veri -m x
git commit -nm x
git commit -anm x
git commit -m x -n
git commit --amend --no-ver
git commit --no-gpg -m x
git merge --no-verif x
git am --no-ver x
git -c submodule.x.update='!cmd' submodule update
git config submodule.x.update '!cmd'
git config --global init.templateDir x
git -c init.templateDir=x init
git init --template=x
git init --templ x
git clone --template x u
git clone -c core.fsmonitor=x u
git clone --conf core.fsmonitor=x u
git clone --config=core.hooksPath=x u
git -c core.fsmonitor=x status
git -c credential.helper='!x' fetch
git -c alias.x='!cmd' x
git config alias.x '!cmd'
git -c diff.external=x diff
git -c diff.a.textconv=x diff
git -c filter.a.clean=x add .
git -c filter.a.smudge=x checkout y
git -c merge.a.driver=x merge y
git -c sequence.editor=x rebase -i
git -c gpg.program=x commit
git -c uploadpack.packObjectsHook=x fetch
git -c protocol.ext.allow=always clone y
git -c core.askPass=x fetch
git -c core.gitProxy=x fetch
git -c pager.log=x log
git -c interactive.diffFilter=x add -p
git -c core.editor='sh -c x' commit
git -c core.pager='sh -c x' log
git config core.pager 'sh -c x'
git config remote.x.uploadpack y
git config --add remote.x.push y
git -c remote.x.vcs=y fetch x
git --config-env=core.sshCommand=X fetch
git -ccore.sshCommand=x fetch
git config set core.hooksPath x
git config --unset core.hooksPath
git -c trailer.x.command=y commit
git -c sendemail.smtpserver=/x send-email
git -c core.worktree=/ checkout .
git -c include.path=x status
hub git push -f
""",
    "protected_paths": r"""
python3 -m hooklatch.__main__ stop
python3 -m hooklatch stop
python -mhooklatch stop
python3 -Im hooklatch stop
python3 -m hooklatch.cli stop
python3 -m runpy hooklatch stop
python3 -m pdb -m hooklatch stop
python3 -c "from hooklatch.__main__ import main; main()" stop
python3 -c "import runpy; runpy.run_module('hooklatch')" stop
python3 -c "import subprocess; subprocess.run(['hooklatch', 'stop'])"
python3 -c "import os; os.system('hooklatch stop')"
python3 /x/site-packages/hooklatch/__main__.py stop
python3 /usr/local/bin/hooklatch stop
/usr/local/bin/hooklatch stop
uvx hooklatch stop
uv tool run hooklatch stop
uv run hooklatch stop
pipx run hooklatch stop
uv run python -m hooklatch stop
foo hooklatch stop
foo python3 -m hooklatch stop
direnv exec . hooklatch stop
"hooklatch" stop
hooklatch --json stop
hooklatch suspend x
nohup hooklatch stop
coverage run -m hooklatch stop
systemctl --user stop hooklatch
pkill -f hooklatch
git diff --output=.env
git diff --output .env
git diff --outpu=.env
git log -p --output=.env
git show --output=.env
git format-patch -o .git HEAD
git format-patch --output-dir=.git HEAD
git archive --output=.env HEAD
git archive -o.env HEAD
git bundle create .env HEAD
git clone u ~/.ssh/x
git worktree add ~/.ssh/x
git init ~/.ssh/x
git -C . diff --output=.env
tar xf a -C ~
tar -xf a -C ~
tar -C ~ -xf a
tar --directory=~ -xf a
tar --extract --file=a --directory ~
tar xfC a ~
tar -xC ~ -f a
tar xzf a.tgz -C /
bsdtar xf a -C ~
unzip a -d ~
unzip -d ~ a
unzip -d/ a
direnv exec . tee .env
foo cp x .env
foo touch .env
foo sed -i s/a/b/ .env
foo -- mv x .env
foo sh -c 'echo x > .env'
foo --cmd='echo x > .env; rm .env'
sed --in-place s/a/b/ .env
sed --in s/a/b/ .env
sed -ni p .env
sed -i.bak -e s/a/b/ .env
sort --out=.env x
sort --output .env x
sort -uo .env x
cp --target-d=.git x
cp --target .git x
mv -t .git x
install --targ .git x
curl --outp .env u
curl -so .env u
wget --output-doc=.env u
""",
}
QUIET: Final = r"""
echo rm -rf /
grep -rn 'rm -rf' src
man rm
type rm
which git bash python3
command -v git
apt install git
apt-get install -y git curl
brew install git
docker run -it bash
docker run -it ubuntu bash
pytest -k git
pytest tests/git
go test ./git/...
make git
kubectl exec -it pod -- bash
npm run git
uv run pytest tests -k rm
claude -p "find the bug in git push and rm"
hg commit -m "git: better rm"
jj describe -m "find out what git does"
mytool --shell=bash
mytool --python=python3
mytool git
./scripts/check.sh git
./run.sh python3
tox -e git
ansible-lint find
git log --oneline -5
git checkout main
git checkout feature/x
git checkout -b fix/a-b origin/main
git checkout v1.2.3
git checkout release/1.2
git switch -c x
git branch -d x
git branch -m a b
git branch --list 'a*'
git tag v1
git tag -l
git tag -a v1 -m 'find -f'
git commit -m '-n is fine'
git commit -am "fix: -f"
git push -u origin x
git push --force-with-lease origin x
git push --follow-tags origin x
git push --set-upstream origin x
git fetch --all --prune
git fetch -p
git pull --rebase
git pull --ff-only
git stash
git stash pop
git stash push -m drop
git reset HEAD a
git reset --soft HEAD~1
git clean -n
git clean --dry-run -fd
git rm --cached a
git restore --staged a
git restore -S a
git worktree add ../x
git worktree remove ../x
git worktree prune -n
git rebase main
git rebase -i HEAD~3
git merge --no-ff x
git merge --no-verify-signatures x
git config user.name
git config --get core.hooksPath
git -c color.ui=always diff
git -c core.pager=cat diff
git -c advice.detachedHead=false checkout v1
git clone --depth 1 https://github.com/x/y
git submodule update --init --recursive
git remote add o u
git remote -v
git lfs pull
git bisect start
git diff --output-indicator-new=x
git diff --stat
tar czf a.tgz src
tar xzf a.tgz
tar xf a -C /tmp/x
tar -tf a
unzip -l a
unzip a -d out
sed -n 1,20p .env.example
sed -e 's/i/x/' a
sed -ne 's/i/o/p' README.md
python3 -m hooklatch status
python3 -c "from hooklatch.guards import commands; print(commands('ls'))"
python3 -c "import hooklatch; print(hooklatch.__version__)"
hooklatch status
pip install hooklatch
uv add hooklatch
xargs --null ls
xargs --no-run-if-empty grep x
timeout --foreground 5 ls
env --ignore-environment ls
sudo --non-interactive ls
nice ls
"""
