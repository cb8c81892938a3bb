"""Everyday commands of containers, clouds, databases and pipes, one a line or one a text.  Data."""

from __future__ import annotations

from typing import Final

__all__ = ["OF_SERVICES"]

LINES: Final = r"""
docker compose exec -T web pytest -q tests/
docker compose run --rm web python manage.py makemigrations
docker compose run --rm -e CI=1 web npm test
docker compose exec db psql -U app -c 'select count(*) from users'
docker compose exec -T db pg_dump -U app app > backup.sql
docker exec -it web sh
docker exec web cat /etc/os-release
docker exec -u root web ls -la /var/log
docker exec redis redis-cli ping
docker run --rm -it -v "$PWD":/work -w /work python:3.12 python -m pytest
docker run -d --name redis -p 6379:6379 redis:7
docker run --rm hadolint/hadolint hadolint Dockerfile
docker rm -f web
docker image prune -f
docker ps -q | xargs docker inspect
docker compose down --remove-orphans
podman run --rm alpine echo hi
kubectl exec -it deploy/web -- bash
kubectl exec web-0 -c app -- env
kubectl -n prod get pods -l app=web -o json | jq '.items[].metadata.name'
kubectl -n prod rollout restart deploy/web
kubectl port-forward svc/web 8080:80
kubectl apply --dry-run=client -f k8s/
kubectl diff -f k8s/
helm upgrade --install web ./chart -f values.yaml
helm template ./chart | kubectl apply --dry-run=server -f -
terraform init && terraform plan -out tf.plan
terraform state list
pulumi preview
aws s3 cp dist/ s3://bucket/app --recursive
aws s3 sync dist s3://bucket/app
aws ec2 describe-instances --query 'Reservations[].Instances[].InstanceId'
aws logs tail /aws/lambda/app --since 10m
gcloud auth list
gcloud run services describe web --region europe-west1
az account show
heroku logs --tail -a app
fly status
fly logs -a app
vercel --prod
gh pr list --state open
gh pr view 12 --json files | jq -r '.files[].path'
gh run view 123 --log-failed
gh issue close 12 --comment 'done in abc'
gh api repos/o/r/pulls/1/comments
psql "$DATABASE_URL" -c '\d users'
psql -d app -Atc "select id from users where deleted_at is null"
psql -d app -f migrations/001_init.sql
sqlite3 app.db '.schema'
sqlite3 app.db "select name from sqlite_master where type='table'"
mysql -u root app -e 'show tables'
mongosh --quiet --eval 'db.users.countDocuments()'
redis-cli -h localhost get session:1
redis-cli keys 'user:*' | head
redis-cli del cache:users
cat schema.sql | psql app
gunzip -c dump.sql.gz | psql app
pg_dump app | gzip > app.sql.gz
rails db:migrate
bin/rails db:seed
php artisan migrate
npx prisma migrate dev --name init
npx prisma db push
alembic upgrade head
git ls-files '*.py' | xargs wc -l
git diff --name-only | xargs -r npx eslint
find . -name '*.ts' -print0 | xargs -0 grep -l useState
printf '%s\n' a b c | sort | uniq
echo "$PATH" | tr ':' '\n'
echo '{"a": 1}' | jq .a
echo '{"a": 1}' | python3 -c 'import json,sys; print(json.load(sys.stdin)["a"])'
echo 'puts 1' > t.rb && ruby t.rb
echo 'export FOO=1' >> .bashrc.local
node build.js > out.log 2>&1; tail -20 out.log
make test 2>&1 | tee test.log | tail -5
./configure && make -j4
curl -s http://localhost:8080/openapi.json > api.json && npx openapi-typescript api.json
curl -fsSL https://github.com/o/r/archive/main.tar.gz -o r.tar.gz && tar tzf r.tar.gz | head
curl -s https://pypi.org/pypi/requests/json | jq -r .info.version
curl -s https://pypi.org/pypi/requests/json > r.json; python3 scripts/report.py r.json
curl -s http://localhost:8080/a | awk '{print $1}'
curl -s http://localhost:8080/a | sed -n 1,5p
curl -s http://localhost:8080/a.json | node -e 'console.log(JSON.parse(require("fs").readFileSync(0)).x)'
git clone https://github.com/psf/requests.git && cd requests && git log -3
git clone --depth 1 https://github.com/o/r /tmp/r && grep -rn TODO /tmp/r
git clone https://github.com/o/r && cd r && npm ci
ssh github.com 'uname -a'
ssh localhost 'cd /srv/app && git pull && systemctl status app'
scp -r dist github.com:/srv/app/
rsync -av dist/ localhost:/srv/app/
tar czf dist.tgz dist && ls -l dist.tgz
tar xzf vendor.tgz && ls vendor
unzip -l build.zip
time make build
for f in *.sql; do echo "$f"; psql app -f "$f"; done
while read -r l; do echo "$l"; done < names.txt
npm view react version
npm uninstall lodash
npm run build && npm run lint
cargo remove serde
uv run pytest -q && uv run ruff check .
"""

TEXTS: Final = [
    'cat > scripts/run.sh <<\'EOF\'\n#!/usr/bin/env bash\nset -euo pipefail\ncd "$(dirname "$0")"\n'
    'npm test -- "$@"\nEOF\nchmod +x scripts/run.sh && ./scripts/run.sh',
    "cat > /tmp/t.py <<'EOF'\nimport sys\nprint(sys.version)\nEOF\npython3 /tmp/t.py",
    "cat > q.sql <<'EOF'\nselect * from users limit 5;\nEOF\npsql -d app -f q.sql",
]

OF_SERVICES: Final = [*LINES.strip().splitlines(), *TEXTS]
