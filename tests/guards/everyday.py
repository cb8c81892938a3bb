"""Everyday commands of people and agents, one a line or one a text: what guards must hardly disturb.  Data."""

from __future__ import annotations

from typing import Final

from guards import everyday_programs
from guards.everyday_files import OF_FILES
from guards.everyday_services import OF_SERVICES

__all__ = ["EVERYDAY"]

LINES: Final = r"""
ls
ls -la
ls -la src/ tests/
ls *.py
ls -1 | head -20
ls -t | head -5
pwd
cd src && ls
cd .. && pwd
cd /srv/app/web && npm test
cd "$(git rev-parse --show-toplevel)"
mkdir -p build/out
mkdir -p src/{api,web,cli}/tests
touch src/__init__.py
touch a.txt b.txt
cp README.md README.bak.md
cp -r src/templates build/
cp config/{dev,local}.toml
cp file{,.bak}
mv old.py new.py
mv src/*.js lib/
rm -f build/output.log
rm -rf build dist
rm -rf node_modules && npm install
rm -rf ./tmp/*
rm *.pyc
rm -r __pycache__
ln -s ../common/config.json config.json
cat package.json
cat package.json | jq .scripts
cat src/main.py | head -50
head -100 src/main.py
tail -f logs/app.log
tail -n 50 logs/app.log | grep -i error
sed -n '1,80p' src/main.py
sed -n 10,40p README.md
sed -i 's/foo/bar/g' src/main.py
sed -i.bak -e 's/a/b/' -e '/^#/d' config.ini
sed -E 's/([a-z]+)_([a-z]+)/\2_\1/' names.txt
awk '{print $1}' access.log | sort | uniq -c | sort -rn | head
awk -F: '{print $1}' users.txt
awk 'NR>=10 && NR<=20' file.txt
awk 'BEGIN{s=0} {s+=$3} END{print s/NR}' data.txt
grep -rn "TODO" src/
grep -rn 'def main' --include='*.py' .
grep -c '\.py$' files.txt
grep -v '^#' .gitignore
grep -E "^(import|from)" src/*.py
grep -oP '(?<=version = ")[^"]+' pyproject.toml
rg -n "class .*Error" src
rg --files | rg test
rg -l 'useState' --glob '*.tsx'
find . -name "*.py" | wc -l
find . -name '*.pyc' -delete
find . -type f -name '*.ts' -not -path './node_modules/*'
find src -name '*.test.ts' | xargs wc -l
find . -type f -size +1M -exec ls -lh {} \;
find . -name '*.log' -mtime +7 -print
find . -maxdepth 2 -type d
find . -name "*.orig" -exec rm {} +
find . -path ./vendor -prune -o -name '*.go' -print
find src -name '*.js' -print0 | xargs -0 grep -l 'require('
wc -l src/*.py
sort -u names.txt > sorted.txt
diff -u a.txt b.txt
diff <(sort a.txt) <(sort b.txt)
comm -12 <(sort a) <(sort b)
cut -d, -f2 data.csv | sort | uniq
tr -d '\r' < in.txt > out.txt
xargs -n1 echo < list.txt
tee build.log
make 2>&1 | tee build.log
du -sh * | sort -h
df -h
ps aux | grep node
ps -ef | grep -v grep | grep python
kill 12345
kill -9 12345
lsof -i :3000
which python3
command -v node
type -a python
env | sort
env FOO=bar npm test
printenv PATH
echo $PATH
echo "$HOME"
echo "done"
echo 'hello world' > hello.txt
echo "export FOO=1" >> notes.txt
printf '%s\n' a b c
printf "%d items\n" 3
date +%Y-%m-%d
date -u +"%Y-%m-%dT%H:%M:%SZ"
sleep 2 && curl -s localhost:8080/health
time make test
time npm run build
timeout 60 npm test
timeout 10s python3 script.py || echo timed out
nohup node server.js > server.log 2>&1 &
node server.js &
git status
git status --short
git status --porcelain | head
git diff
git diff --stat HEAD~1
git diff main...HEAD -- src/
git diff --cached
git log --oneline -10
git log --oneline --graph --all | head -20
git log -p -1 -- src/main.py
git log --format='%h %an %s' --since='2 weeks ago'
git log -S 'needle' --source --all
git show HEAD
git show HEAD:src/main.py
git show stash@{0}
git rev-parse --abbrev-ref HEAD
git rev-parse @{u}
git branch
git branch -a
git branch --show-current
git branch -d old-feature
git checkout -b feature/login
git switch -c fix/typo
git switch main
git add .
git add -A
git add src/main.py tests/test_main.py
git add -p src/main.py
git commit -m "Fix the parser"
git commit -m 'Add tests' -m 'They cover the edge cases.'
git commit -am "wip"
git commit --amend --no-edit
git push origin feature/login
git push -u origin HEAD:feature/login
git pull --rebase
git fetch --all --prune
git fetch origin
git merge origin/main
git rebase origin/main
git rebase --continue
git stash
git stash pop
git stash list
git tag -a v1.2.0 -m "Release 1.2.0"
git blame -L 10,20 src/main.py
git remote -v
git clone https://github.com/psf/requests.git
git ls-files | grep test
git ls-files -m
git grep -n 'TODO' -- '*.py'
git config --get user.email
git config user.name
git cherry-pick abc1234
git worktree list
git shortlog -sn
git bisect start
git -C ../other status
git add . && git commit -m "Update docs" && git push origin feature/docs
gh pr list
gh pr view 123
gh pr create --title "Fix" --body "Fixes #12"
gh issue list --label bug
gh run list --limit 5
gh api repos/psf/requests/pulls --jq '.[].title'
npm install
npm ci
npm test
npm run build
npm run lint -- --fix
npm run test -- --watch=false
npm ls --depth=0
npm outdated
npm version patch
npx tsc --noEmit
npx eslint . --ext .ts,.tsx
npx prettier --check .
npx jest src/foo.test.ts -t 'handles errors'
yarn
yarn build
yarn test --coverage
pnpm install
pnpm -r build
pnpm run dev
node -v
node -e "console.log(process.version)"
node script.js --input data.json
node --test
bun test
deno test --allow-read
pip list
pip install -r requirements.txt
pip install -e .
pip install -e '.[dev]'
pip show requests
pip freeze > requirements.txt
python3 -m venv .venv
source .venv/bin/activate
. .venv/bin/activate && pytest
python3 -m pytest
python3 -m pytest tests/ -x -q
python -m pytest tests/test_main.py::test_foo -v
python3 -m http.server 8000
python3 -c 'print(1 + 1)'
python3 -c "import sys; print(sys.version)"
python3 -m json.tool data.json
python3 manage.py migrate
python3 manage.py runserver 0.0.0.0:8000
python3 script.py --verbose --out "out dir/file.txt"
pytest
pytest -q
pytest -k 'not slow' --maxfail=3
pytest tests/unit -n 4 --cov=src --cov-report=term-missing
ruff check .
ruff check --fix src
ruff format --check .
black --check src
mypy src
mypy --strict src/ | head -40
pyright
tox -e py312
uv sync
uv run pytest -q
uv run python script.py
uv pip install -e .
poetry install
poetry run pytest
cargo build
cargo build --release
cargo test
cargo test -- --nocapture
cargo clippy -- -D warnings
cargo fmt --check
cargo run --bin server
go build ./...
go test ./...
go test -run TestFoo -v ./pkg/bar
go vet ./...
go mod tidy
gofmt -l .
mvn -q test
./gradlew build
./gradlew test --tests 'com.example.FooTest'
make
make test
make -j8
make clean all
make -C docs html
make CFLAGS='-O2 -g' all
cmake -B build -S . -DCMAKE_BUILD_TYPE=Release
cmake --build build -j
ctest --test-dir build --output-on-failure
gcc -O2 -o main main.c -lm
g++ -std=c++20 main.cpp -o main && ./main
./configure --prefix=/usr/local
./scripts/build.sh
bash scripts/test.sh
bash -x scripts/test.sh
sh scripts/setup.sh --fast
bash -c 'echo $HOME'
bash -lc 'npm test'
sh -c 'cd web && npm test'
chmod +x scripts/build.sh
chmod 644 README.md
docker ps
docker ps -a --format '{{.Names}}'
docker images
docker build -t app:latest .
docker build --build-arg VERSION=1.0 -f docker/Dockerfile .
docker run --rm app:latest
docker run --rm -it -p 8080:80 app:latest
docker run -v "$PWD":/app -w /app node:20 npm test
docker compose up -d
docker compose logs -f web
docker compose exec web python manage.py migrate
docker compose down
docker exec -it db psql -U postgres
docker logs --tail 100 web
docker inspect -f '{{.State.Status}}' web
kubectl get pods
kubectl get pods -n prod -o wide
kubectl logs deploy/web --tail=100
kubectl describe pod web-0
kubectl apply -f k8s/deployment.yaml
kubectl exec -it web-0 -- ls /app
helm list
helm template chart/ | head -50
terraform init
terraform plan
terraform fmt -check
aws s3 ls
aws sts get-caller-identity
curl -s http://localhost:8080/health
curl -s localhost:3000/api/users | jq '.[0].name'
curl -sS -X POST -H 'Content-Type: application/json' -d '{"name": "x"}' http://localhost:8080/users
curl -I https://github.com
curl -fsSL https://raw.githubusercontent.com/psf/requests/main/README.md -o readme.md
wget -q https://github.com/psf/requests/archive/main.tar.gz
tar xzf main.tar.gz
tar -czf backup.tgz src/ docs/
tar tf archive.tar | head
unzip -o bundle.zip -d out/
zip -r out.zip dist
gzip -k data.json
base64 -d token.txt
openssl rand -hex 16
sha256sum dist/*.whl
md5sum file
jq '.dependencies | keys' package.json
jq -r '.version' package.json
jq --arg v "1.2" '.version = $v' package.json > tmp.json && mv tmp.json package.json
yq '.services' docker-compose.yml
sqlite3 app.db '.tables'
sqlite3 app.db "select count(*) from users"
psql -c 'select 1'
psql -h localhost -U app -d app -f schema.sql
redis-cli ping
tree -L 2
tree -I node_modules
file build/app
stat README.md
readlink -f link
realpath .
basename src/main.py .py
dirname "$0"
xxd file.bin | head
hexdump -C file.bin | head -5
strings build/app | grep version
nl -ba src/main.py | sed -n '20,40p'
less README.md
man ls
history | tail -20
id
whoami
uname -a
uptime
free -m
nproc
hostname
ss -ltnp
ip addr
ping -c 1 localhost
test -f .env && echo yes || echo no
[ -d node_modules ] || npm ci
[ "$CI" = true ] && echo ci
[[ -f package.json ]] && npm ci
[[ "$branch" == feature/* ]] && echo feature
[[ $version =~ ^v[0-9]+\.[0-9]+$ ]] && echo ok
x=5; echo $x
VERSION=$(git describe --tags) && echo "$VERSION"
FOO=bar BAZ=qux node app.js
NODE_ENV=production npm run build
PYTHONPATH=src python3 -m app
CI=1 npm test 2>&1 | tail -40
export PATH="$HOME/.local/bin:$PATH"
export NODE_ENV=test
unset FOO
set -e
set -euo pipefail
set -o pipefail; make test 2>&1 | tail -20
shopt -s globstar; ls **/*.py
alias ll='ls -la'
for f in *.py; do echo "$f"; done
for i in 1 2 3; do curl -s localhost:$i; done
for i in $(seq 1 5); do echo $i; sleep 1; done
for i in {1..5}; do echo "run $i"; npm test || break; done
for ((i=0; i<3; i++)); do echo $i; done
for d in */; do (cd "$d" && git status -s); done
for f in src/*.ts; do mv "$f" "${f%.ts}.tsx"; done
for f in $(git diff --name-only); do wc -l $f; done
while read -r line; do echo "$line"; done < file.txt
while ! curl -s localhost:8080; do sleep 1; done
while true; do date; sleep 5; done
until pg_isready; do sleep 1; done
cat list.txt | while read x; do echo "got $x"; done
if [ -f Makefile ]; then make; else echo none; fi
if git diff --quiet; then echo clean; fi
if [[ -z "$1" ]]; then echo usage; exit 1; fi
if ! command -v jq >/dev/null 2>&1; then echo missing; fi
case "$1" in start) echo up;; stop) echo down;; *) echo what;; esac
select x in a b; do echo $x; break; done
f() { echo "$1"; }; f hi
greet() { local name="$1"; echo "hi $name"; }; greet bob
((count++))
i=0; i=$((i+1)); echo $i
echo $((3 * 4))
arr=(a b c); echo "${arr[@]}"
arr=(a b c); echo ${#arr[@]} ${arr[1]}
declare -A m=([a]=1 [b]=2); echo "${m[a]}"
echo ${x:-default}
echo "${file##*/}" "${file%.*}"
echo "${name//-/_}" "${name^^}"
echo {a,b}{1,2}
echo "a\tb"
echo -e "a\nb"
echo -n "no newline"
echo "it's \"quoted\""
echo 'single $not expanded'
echo $'tab\there'
echo "today is $(date)"
echo "cost: \$5"
ls > out.txt 2>&1
ls &> out.txt
ls >& out.txt
ls 2>/dev/null
ls >/dev/null 2>&1 && echo ok
exec 3>&1
make |& tee log
{ echo a; echo b; } > out.txt
(cd web && npm ci)
! grep -q error log.txt
true && false || echo x
ls; pwd; date
sleep 1 & wait
trap 'rm -f tmp.txt' EXIT
jobs
read -p "name: " name
wait $!
sudo systemctl status nginx
sudo apt-get update
ssh build.github.com uptime
scp dist.tgz github.com:/tmp/
rsync -av src/ backup/
xargs -I{} cp {} backup/ < files.txt
echo a b c | xargs -n 1 echo
seq 10 | paste -sd+ | bc
echo "2 + 2" | bc
python3 - < script.py
perl -pe 's/a/b/' file
perl -i -pe 's/\bfoo\b/bar/' src/*.c
ruby -e 'puts 1'
watch -n 2 kubectl get pods
tmux ls
crontab -l
open http://localhost:3000
code .
vim README.md
pre-commit run --all-files
hooklatch status
ffmpeg -i in.mp4 -vf scale=640:-1 out.mp4
convert in.png -resize 50% out.png
"""

TEXTS: Final = [
    "cat > notes.md <<'EOF'\n# Notes\n\nUse `make` and $(pwd).\nEOF",
    'cat <<EOF > config.json\n{\n  "name": "$NAME",\n  "version": "1.0"\n}\nEOF',
    "cat >> src/app.py <<'PY'\n\ndef main():\n    print(f\"{x!r}\")\n\n\nif __name__ == '__main__':\n    main()\nPY",
    "python3 - <<'EOF'\nimport json\nprint(json.dumps({'a': 1}))\nEOF",
    "git commit -m \"$(cat <<'EOF'\nFix the reader\n\n- it's strict now\n- uses `read`\nEOF\n)\"",
    "git commit -F - <<'EOF'\nSubject\n\nBody with 'quotes' and (parentheses).\nEOF",
    'gh pr create --title "Fix" --body "$(cat <<\'EOF\'\n## Summary\n- one (two)\n\n## Test\n- [ ] run `make`\nEOF\n)"',
    "cd web && \\\n  npm ci && \\\n  npm test",
    'docker run --rm \\\n  -v "$PWD:/app" \\\n  -e FOO=bar \\\n  app:latest',
    "curl -s \\\n  -H 'Accept: application/json' \\\n  http://localhost:8080/x \\\n  | jq .",
    "set -e\ncd web\nnpm ci\nnpm run build\n",
    "# build it\nmake\n\n# and test it\nmake test  # all",
    "if [ -f a ]; then\n  echo a\nelif [ -f b ]; then\n  echo b\nelse\n  echo c\nfi",
    'for f in a b; do\n  echo "$f"\n  if [ -s "$f" ]; then\n    cat "$f"\n  fi\ndone',
    "while IFS= read -r line; do\n  printf '%s\\n' \"$line\"\ndone < <(ls)",
    'case "$1" in\n  a|b)\n    echo ab\n    ;;\n  *)\n    echo other\n    ;;\nesac',
    'build() {\n  local target="$1"\n  make "$target" || return 1\n}\nbuild all',
    'total=0\nfor f in *.txt; do\n  n=$(wc -l < "$f")\n  total=$((total + n))\ndone\necho "$total"',
    "start=$(date +%s); make; echo $(( $(date +%s) - start ))s",
    'node -e \'\nconst fs = require("fs");\nconsole.log(fs.readdirSync(".").length);\n\'',
    "python3 -c \"\nimport sys\nfor line in open('a.txt'):\n    print(line.strip())\n\"",
    "psql -d app <<'SQL'\nselect id, name from users limit 5;\nSQL",
    "jq '\n  .items[]\n  | select(.a > 1)\n  | .name\n' data.json",
    "npm test 2>&1 | grep -E '(PASS|FAIL)' | sort | uniq -c",
    "ls -la | awk '{ if ($5 > 1000) print $9 }'",
    "tar czf - src | wc -c",
    "echo '{\"a\": [1, 2]}' | python3 -m json.tool",
    'test "$(git rev-parse HEAD)" = "$(git rev-parse origin/main)" && echo same',
    "diff -r a b || true",
    "grep -rn \"foo(\" src | grep -v '//' | head",
]

EVERYDAY: Final = [
    *LINES.strip().splitlines(),
    *TEXTS,
    *everyday_programs.LINES.strip().splitlines(),
    *OF_SERVICES,
    *OF_FILES.strip().splitlines(),
]
