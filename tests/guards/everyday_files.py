"""Everyday commands that move, link, remove and find files, or run programs in another folder.  Data."""

from __future__ import annotations

from typing import Final

__all__ = ["OF_FILES"]

OF_FILES: Final = r"""
rm -rf ./dist ./coverage
rm -rf src/*.egg-info
rm -rf test-output-*
rm -rf .next .turbo
rm -rf .pytest_cache .mypy_cache .ruff_cache
rm -rf packages/*/node_modules
rm -rf "$TMPDIR/build"
rm -f *.log *.tmp
rm -f package-lock.json && npm install
rm -rf /tmp/build-1234
rm -rf /tmp/checkout/*
rm -rf dist && mv build/out dist
rm -rf out; mv ../gen/out out
rm -rf node_modules/foo && ln -s ../../foo node_modules/foo
rm -f .git/index.lock
cd /tmp && rm -rf checkout && mkdir checkout
cd packages/api && rm -rf dist && npm run build
(cd web && rm -rf .next && npm run build)
cd src && cd .. && rm -rf build
for d in packages/*; do (cd "$d" && npm test); done
find . -name '__pycache__' -type d -exec rm -rf {} +
find . -type d -name node_modules -prune -exec rm -rf '{}' +
find . -type d -empty -delete
find . -type f \( -name '*.pyc' -o -name '*.pyo' \) -delete
find . -name .DS_Store -delete
find build -mtime +7 -delete
find logs -type f -mtime +30 -delete
find /tmp -maxdepth 1 -name 'test-*' -exec rm -rf {} +
find . -path ./node_modules -prune -o -name '*.map' -print
find . -name '*.tmp' | xargs rm -f
find . -name '*.log' -print0 | xargs -0 rm
find . -name '*.py' | xargs sed -i 's/foo/bar/g'
find . -name '*.ts' -not -path '*/node_modules/*' | xargs grep -l useState
find . -type f -newer package.json -not -path './.git/*'
find . -type f -size +10M
find . -type f -name '*.md' -exec chmod 644 {} \;
find src -name '*.test.js' -execdir ls {} \;
grep -rl foo src | xargs sed -i 's/foo/bar/g'
rg -l oldName | xargs sed -i 's/oldName/newName/g'
git ls-files -d | xargs rm
git ls-files -m | xargs -r wc -l
ls *.bak | xargs rm
ls -t *.log | tail -n +5 | xargs rm
ln -sf ../shared/config config
ln -sfn releases/42 current
ln -s "$(pwd)/bin/tool" ~/.local/bin/tool
ln README.md docs/README.md
mv dist dist.bak; npm run build; rm -rf dist.bak
mv *.md docs/
for f in *.jpeg; do mv "$f" "${f%.jpeg}.jpg"; done
mv "$f" "$(echo $f | tr A-Z a-z)"
cp -r templates/* build/
cp -a src/. build/src/
cp model.pth backup/model.pth
cp .env.example .env.local.example
cp -t build a.txt b.txt
rsync -a --delete src/ build/src/
rsync -av --delete dist/ deploy@build.github.com:/var/www/app
tar -xzf release.tgz -C /tmp/release
unzip -q x.zip -d build
mkdir -p ~/.cache/app && touch ~/.cache/app/x
chmod -R u+w build
chmod 644 *
chmod +x scripts/*.sh bin/tool
sed -i 's/a/b/' *.md
touch a/{b,c}.txt
echo 'x' > "$PWD/out.txt"
echo x > src/.gitkeep
echo node_modules >> .gitignore
echo '{}' > .vscode/extensions.json
cat > .github/workflows/ci.yml < ci.yml
npm test > test.log 2>&1
echo done > /dev/stderr
cat x > /dev/null
dd if=/dev/urandom of=blob bs=1M count=1
env -C web npm test
env -C sub rm -rf dist
sudo -u postgres psql -c 'SELECT 1'
sudo rm -rf build
su - postgres -c 'psql -l'
make -C sub clean
git -C sub mv a.py b.py
pnpm -C packages/api test
pnpm --dir web build
uv run --directory api pytest
yarn --cwd web test
cargo run -C crates/cli
ssh build.github.com 'cd /srv/app && git pull && docker compose up -d'
ssh build.github.com 'tail -n 100 /var/log/app.log'
ssh -t build.github.com sudo systemctl restart app
ssh build.github.com 'rm -rf /tmp/deploy'
scp dist.tgz build.github.com:/tmp/
docker run -v "$PWD:/app" -w /app node:20 npm test
docker run -v ./data:/data alpine ls /data
docker run --device /dev/kvm -it emulator
trap 'rm -rf "$tmp"' EXIT
trap 'echo failed' ERR
pushd web && npm ci && popd
lsblk
df -h /dev/sda1
esptool.py --port /dev/ttyUSB0 flash_id
"""
