"""Everyday commands of programs that few tables have, of options and of git: more of `everyday.py`.  Data."""

from __future__ import annotations

from typing import Final

__all__ = ["LINES"]

LINES: Final = r"""
pnpm run build --filter web
pnpm -r test
pnpm exec tsc --noEmit
yarn workspace web test --watch=false
yarn run lint --fix
bun run dev
bun test src/rm.test.ts
npm run test -- --grep "find the user"
npm test -- git
npm run lint:fix -- src/git
npm --prefix web run build
npm version patch -m "release: %s"
turbo run build --filter=web...
nx affected -t test
lerna run build
vitest run src/find.test.ts
playwright test --grep "git push"
jest -t "rm removes the item"
poetry run pytest -k "not git"
poetry run python -m app.tools
uv run ruff check --fix src
uv run python manage.py migrate
uv sync --all-extras
uv lock --upgrade-package django
pdm run lint
hatch run test:cov
tox -e py311 -- -k git
nox -s lint -- src
pipenv run flask run
python manage.py shell -c "print(1)"
python3 -m pytest tests/test_rm.py -x -q
python3 -m build --sdist
cargo test rm -- --nocapture
cargo run --release -- --input data.json
cargo clippy --all-targets -- -D warnings
cargo add serde --features derive --dry-run
go test ./... -run TestGit
go run ./cmd/server --addr :8080
go build -o bin/app ./cmd/app
gradle test --tests GitTest
./gradlew build -x test
mvn -q -DskipTests package
sbt "testOnly *GitSpec"
mix test test/git_test.exs
bundle exec rspec spec/models
bundle exec rake db:migrate
rails db:rollback STEP=1
composer install --no-interaction
php artisan migrate --force
dotnet test --filter Git
swift build -c release
zig build test
just test git
task build
make test ARGS="-k git"
make -j4 -C build all
cmake --build build --target test
ctest --test-dir build -R git
bazel test //src/git/...
direnv allow
direnv exec . make test
dotenv -e .env.test -- npm test
op run --env-file=dev.env -- npm start
doppler run -- python app.py
aws-vault exec dev -- aws s3 ls
chronic make test
watchexec -e py -- pytest -q
nix develop -c make test
nix-shell -p git --run "git status"
asdf install python 3.12
mise use python@3.12 --dry-run
mise exec -- python --version
nvm use 20
volta run node -v
ansible-playbook -i hosts site.yml --check
terraform plan -out=tf.plan
terraform fmt -recursive
kubectl logs -f deploy/web -c app
kubectl get pods -o wide --sort-by=.metadata.name
kubectl apply -f k8s/
docker compose up -d db
docker compose exec web bash
docker compose run --rm web pytest
docker exec -it db psql -U app -c "select 1"
docker run --rm -it node:20 bash
gh pr checkout 12
gh run watch
gh api repos/x/y/pulls --jq ".[].number"
gh workflow run ci.yml
hg commit -m "git: find the right branch"
jj describe -m "rm unused code"
claude -p "find out why git push fails"
slack-cli send "#dev" "git push is done"
tmux new-session -d -s dev "npm run dev"
pre-commit run ruff --files src/git/find.py
black src/git tests/git
ruff format src/git
mypy src/rm.py
semgrep --config auto src
eslint --fix src/git
prettier --write "src/**/*.ts"
tsc -p tsconfig.json --watch false
sed -n -e '1,5p' -e '10p' README.md
sed -E 's/(a|i)/x/' notes.txt
sort -t, -k2 -n data.csv
tar --exclude=node_modules -czf /tmp/a.tgz .
tar -xzf a.tgz --strip-components=1 -C build
unzip -q dist.zip -d build
perl -ne 'print if /x/' a.txt
perl -MList::Util=sum -lne 'print sum split' a.txt
cp -a --no-clobber config/ backup/
install -m 755 bin/app build/app
rsync -az --exclude=.git ./ build/
env -u NODE_OPTIONS npm test
timeout --signal=INT 30 npm start
nice -n 10 make -j2
xargs -0 -n 1 --no-run-if-empty wc -l
git checkout -b fix/rm-button origin/main
git checkout --track origin/feature
git checkout v2.1.0
git checkout -
git switch --create fix/x
git switch --detach HEAD~2
git branch --sort=-committerdate
git branch -vv --merged
git branch -m old-name new-name
git branch --set-upstream-to=origin/x x
git tag --sort=-v:refname
git tag -a v1.2 -m "find and fix"
git commit --fixup=HEAD~1
git commit -m "reset --hard is gone"
git push --follow-tags origin feature
git push -o ci.skip origin feature
git push --dry-run origin feature
git fetch --tags --prune --all
git fetch origin pull/12/head:pr-12
git pull --rebase --autostash
git stash push -m "drop this later"
git stash show -p
git stash apply stash@{1}
git reset HEAD~1
git reset --soft origin/main
git reset -q -- src/app.py
git restore --staged --source=HEAD~1 src
git clean -ndx
git rm -r --cached build
git worktree add ../review origin/main
git worktree list --porcelain
git remote set-head origin -a
git remote show origin
git rebase --onto main old-base feature
git cherry-pick -x abc123
git merge --no-commit --no-ff feature
git revert --no-edit HEAD
git bisect start HEAD v1.0
git bisect run make test
git diff --stat --output-indicator-new=+
git log --format='%h %s' --author=me
git grep -n "rm -rf" -- '*.sh'
git -c core.quotepath=off ls-files
git -c core.pager=cat show HEAD
git config --get-regexp '^alias'
git config --global init.defaultBranch
git clone --depth=1 -b main https://github.com/x/y /tmp/y
git submodule update --init
git archive --format=tar HEAD -o /tmp/src.tar
git format-patch -1 -o /tmp/patches
git update-index --refresh
git symbolic-ref --short HEAD
git reflog -5
git gc --auto
"""
