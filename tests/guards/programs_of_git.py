"""What git, and what writes, are told by options and words, by the guard that stops it.  Data."""

from __future__ import annotations

from typing import Final

__all__ = ["WRITTEN"]

WRITTEN: Final = {
    "git_rules": r"""
foo git push -f
arch -x86_64 git push -f
cargo watch -s 'git push -f'
podman unshare git push origin main
wsl -e git push -f
env -S 'git push' -f
env -vS'git commit' -n -m x
env --split-string 'git push' --force
git fetch --upload-pack=./x
git fetch --upload-pack ./x origin
git pull --upload-p=./x
git push --receive-pack=./x
git push --exec ./x
git clone -u ./x a b
git ls-remote --upload-pack=./x .
git archive --remote=. --exec=./x HEAD
git push --repo=origin main
git push --repo origin main
ssh $OPTS host git push -f
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
vim -c '!git push -f' x
sqlite3 x '.shell git push -f'
vim '+!git push -f'
psql -c '\! git push -f'
man -P 'git push -f' ls
find . -exec git push -f ';'
env --spl 'git push -f'
sudo --us me git push -f
uv --directory x run git push -f
npx -c 'git push -f'
git -C x push --forc
git --no-pager push --for
git --git-dir x push -f
git push -o x -f
git push --push-opt x --forc
git push --repo=x --forc
git config --file x core.pager y
git config --fil x core.pager y
GIT_CONFIG_COUNT=1 git commit
""",
    "protected_paths": r"""
arch -x86_64 tee .env
podman unshare tee .env
cargo watch -s 'touch .env'
psql -o .env -c 'select 1'
psql -L .env
pg_dump -f .env app
mysqldump -r .env app
pandoc -o .env x
dot -Tpng -o.env x
go build -o .git/hooks/pre-commit
go test -coverprofile .env ./...
shuf -o .env x
split -b 1 x .git/
csplit -f .git/ x 1
script .env
script -q -O .env -c ls
docker cp c:/x .env
docker compose cp c:/x .env
podman cp c:/x .git/hooks/
kubectl cp p:/x .env
kubectl cp -n a p:/x .env
lxc file pull c/x .env
aws s3 cp s3://b/x .env
gsutil cp gs://b/x .env
rclone copyto r:x .env
gh release download -O .env
zip .env x
ffmpeg -i x .env
npx prettier --write .env
eslint --fix .env
tar cf .env x
openssl genrsa -out .env 2048
echo nv | xargs -I{} touch .e{}
printf 'a\nenv\n' | xargs -I% touch .%
seq -f .env 1 | xargs touch
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
vim -c '!touch .env' x
sqlite3 x '.system touch .env'
psql -c '\! hooklatch stop'
ln -s -t .git x
sudo -u me hooklatch stop
python3 -X dev -m hooklatch stop
python3 -W ignore -m hooklatch stop
python3 -X dev /usr/bin/hooklatch stop
python3 -OO -m hooklatch stop
python3.12 -m hooklatch stop
pypy3 -m hooklatch stop
hooklatch serve --x
hatch run hooklatch stop
npx hooklatch stop
pdm run python -m hooklatch.__main__ stop
foo -m hooklatch stop
python3 -c 'import hooklatch.cli as c; c.main(["stop"])'
python3 -c 'import subprocess as s; s.run("hooklatch stop", shell=True)'
python3 -c 'import os; os.execvp("hooklatch", ["hooklatch", "stop"])'
node -e 'require("child_process").execSync("hooklatch stop")'
perl -e 'exec "hooklatch", "stop"'
ruby -e 'system("hooklatch stop")'
find . -exec foo tee .env ';'
sed --expr=s/a/b/ --in-pl .env
sed -Ei s/a/b/ .env
sed -n -i p .env
perl -pi -e s/a/b/ .env
perl -i.bak -pe s/a/b/ .env
truncate --siz 0 .env
shred --remov .env
tar --fil=.env -c a
tar cf .env a
tar -cf.env a
install -D a .env
dd if=a of=.env
chmod --ref=a .env
touch --dat=x .env
cp -t.git a
mv --target-directory=.git a
ln --sym a .env
git -C x diff --output ../.env
git stash show -p --output=.env
git diff-tree --output=.env HEAD
""",
}
