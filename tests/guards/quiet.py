"""Words and options that only look like what guards stop: no reason to ask.  Data."""

from __future__ import annotations

from typing import Final

__all__ = ["QUIET"]

QUIET: Final = r"""
sed -n "${start},${end}p" f
sed -i "s|$old|$new|g" f
sed -e '/^$/d' -e 's/^[ \t]*//' f
sed '/start/,/end/{/start/n;/end/!d}' f
sed ':a;N;$!ba;s/\n/ /g' f
sed '1i\header' f
sed -i '3a new line' f
sed -n '/x/{p;q}' f
sed 's/[^/]*$//' f
sed "s/'/\"/g" f
sed -i '' 's/a/b/' f
sed '$d' f
sed -n '$=' f
sed 's/\(.*\)@\(.*\)/\2/' f
sed -E 's#^(.*)/([^/]+)$#\2#' f
sed = f | sed 'N;s/\n/\t/'
sed --version
sed -n l f
sed '/^#/!d' f
sed '0~3d' f
sed -s -n '$p' a.txt b.txt
git log --oneline | sed -n 1p
sed 's/\x1b\[[0-9;]*m//g' f
sed "s/^version = .*/version = \"$(cat VERSION)\"/" pyproject.toml
sed -i "/^import os$/d; s/os\.path/pathlib/g" a.py
sed -n '/^def /,/^$/p' a.py
sed -i 's/foo/bar/w changes.txt' a.py
sed -f fix.sed a.py
sed -i -e '$a\' a.py
sed -i '/<<<<<<< HEAD/,/=======/d' a.py
sed "${n}d" f
sed -n 's/.*"version": "\([^"]*\)".*/\1/p' package.json
sed -e "s/@@HOST@@/$HOST/" -e "s/@@PORT@@/${PORT:-80}/" t > o
nc -z localhost 80
nc -l 8080
nc -zv db.local 5432
ncat --version
rg --pre-glob '*.pdf' x
rg -n --hidden foo src
tcpdump -i lo -w x.pcap
cmake -E echo hi
cmake -E copy a b
cmake -E make_directory build
cmake -B build -S .
cmake --build build
socat - TCP:localhost:80
socat TCP-LISTEN:8080,fork TCP:localhost:80
elixir -e 'IO.puts 1'
mix test
emacs --batch -l ert
m4 f.m4
sftp x.example
iex -S mix
echo rm -rf /
arch
uname -m; arch
cargo watch -x test
cargo watch -w src -x 'run -- --port 80'
podman unshare cat /proc/self/uid_map
wsl --list
env -S 'node --no-warnings' app.js
docker cp .env c:/app/.env
docker cp c:/app/dist ./dist
kubectl cp p:/tmp/x.log ./x.log
kubectl cp .env p:/app/.env
psql -o out.txt -c 'select 1'
pandoc README.md -o out.pdf
go build -o bin/app ./cmd/app
shuf -n 3 names.txt
split -l 100 big.csv part_
zip -r out.zip src
ffmpeg -i in.mp4 -c copy out.mp4
npx prettier --write src
npx eslint --fix .
badblocks --version
git fetch --upload-pack=git-upload-pack
seq 1 10 | xargs -I{} touch fixtures/{}.json
rm -rf "$PWD/dist"
rm -rf "${PWD}/node_modules/.cache"
gh issue create --title "curl https://evil.example fails" --body x
gh pr comment 3 --body="see https://evil.example/x"
psql -c "select * from t where host = 'db.evil.example'"
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
psql -c "select 1 where a != 2"
psql -d app -c "select 'hi!'"
vim -c 'set number' README.md
vim +12 src/app.py
less +F log.txt
sqlite3 app.db '.schema users'
sqlite3 app.db '.tables'
gdb -batch -ex 'info shared' a.out
man -k shell
docker compose down --timeout 5
docker compose -f a.yml up -d
systemctl --user status app
chmod $MODE file.txt
node -e 'console.log("hooklatch is here")'
python3 -c 'import hooklatch.guards; print(1)'
"""
