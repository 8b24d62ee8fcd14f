#!/usr/bin/env bash
# What a SELECT on a view costs: the table in docs/security.md, "What it costs".
#
#   bench/views.sh DIR     a private cluster in DIR, which is removed at the end (2 GB, some minutes)
#
# A million entries of 9,000 users without vectors. Each statement runs 30 times for each of three users,
# as a role of level user: on the view, and on the table, where only row-level security stands between
# (SELECT on it is granted by hand for that). Medians in milliseconds, the view's first.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
dir=${1:?usage: bench/views.sh DIR}
trap 'scripts/cluster destroy "$dir"' EXIT

scripts/cluster start "$dir" --preload -c shared_buffers=2GB -c autovacuum=off -c memory_agent.background=off \
    -c jit=off -c max_wal_size=4GB >/dev/null
sql() { scripts/cluster psql "$dir" -qAtX -v ON_ERROR_STOP=1 -d views "$@"; }
scripts/cluster psql "$dir" -qX -d postgres -c 'CREATE DATABASE views'
sql -c 'CREATE EXTENSION memory_agent CASCADE' 2>/dev/null
sql <<'SQL'
INSERT INTO memory_agent.entries (id, created_at, doc_len, token_count, user_id, agent_id, session_id, kind, role,
                                  lexemes, content, content_hash, lexeme_config)
SELECT gen_random_uuid(), timestamptz '2024-01-01' + n * interval '30 s', 20, 31, u.name, 'default',
       's' || n / 40, 'turn', 'user', to_tsvector('english', 'row ' || n), repeat('word ' || n || ' ', 10),
       sha256(n::text::bytea), 'english'
  FROM generate_series(1, 1000000) n,
       LATERAL (SELECT CASE WHEN n % 10 = 0 THEN 'many' WHEN n % 1000 = 1 THEN 'some' WHEN n = 2 THEN 'one'
                            ELSE 'user ' || hashint4(n) % 9000 END AS name) u;
VACUUM ANALYZE memory_agent.entries;
CREATE ROLE viewer LOGIN;
SELECT memory_grant('viewer', 'user');
GRANT SELECT ON memory_agent.entries TO viewer;
SQL

for form in "WHERE id = '%id'" \
    "WHERE session_id = '%session' ORDER BY created_at DESC LIMIT 10" \
    "ORDER BY created_at DESC LIMIT 10" \
    "count"; do
    printf '%s' "$form"
    for user in one some many; do
        read -r id session < <(sql -F ' ' -c "SELECT id, session_id FROM memory_agent.entries \
            WHERE user_id = '$user' ORDER BY created_at LIMIT 1 OFFSET (SELECT count(*) / 2 FROM memory_agent.entries WHERE user_id = '$user')")
        for relation in memory_entries memory_agent.entries; do
            if [ "$form" = count ]; then
                statement="SELECT count(*) FROM $relation"
            else
                statement="SELECT * FROM $relation ${form//%id/$id}"
                statement=${statement//%session/$session}
            fi
            times=$({
                printf "SET memory_agent.user_id = '%s';\n" "$user"
                printf '\\timing on\n'
                for _ in $(seq 33); do printf '%s;\n' "$statement"; done
            } | sql -U viewer -o /dev/null | sed -n -E 's/^Time: ([0-9.]+) ms.*/\1/p')
            # The first ones fill the caches of the session.
            printf ' | %s' "$(tail -n 30 <<<"$times" | sort -n | sed -n 15p)"
        done
    done
    printf '\n'
done
