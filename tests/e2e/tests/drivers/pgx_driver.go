// Calls with the types that pgx sends; the answers as JSON. scripts/setup --tests builds it.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgconn"
	"github.com/jackc/pgx/v4"
)

type object = map[string]interface{}

var (
	ctx = context.Background()
	db  *pgx.Conn
)

// One value of one row.
func one(sql string, values ...interface{}) interface{} {
	var value interface{}
	check(db.QueryRow(ctx, sql, values...).Scan(&value))
	return value
}

func texts(sql string, values ...interface{}) []string {
	found := []string{}
	rows, err := db.Query(ctx, sql, values...)
	check(err)
	for rows.Next() {
		var text string
		check(rows.Scan(&text))
		found = append(found, text)
	}
	check(rows.Err())
	return found
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	config, err := pgx.ParseConfig("")
	check(err)
	db, err = pgx.ConnectConfig(ctx, config)
	check(err)
	one("SELECT memory_ingest('s', 'user', $1, user_id => 'g', metadata => $2, created_at => $3, ttl => $4)",
		"The dog is called Rex.", object{"source": 1}, time.Now(), time.Hour)
	const recall = "SELECT content FROM memory_recall($1, user_id => $2, top_k => $3, score_threshold => $4, " +
		"recency_weight => $5, mmr_lambda => $6, filter => $7, kinds => $8)"
	arguments := []interface{}{"What is the dog called?", "g", 3, 0.01, 0.1, 0.9, object{"kind": []string{"turn"}}, []string{"turn"}}
	// As behind a pooler: the values stand in the statement.
	inStatement := append([]interface{}{pgx.QuerySimpleProtocol(true)}, arguments...)
	inStatement[7] = `{"kind": ["turn"]}`
	var refused *pgconn.PgError
	_, err = db.Exec(ctx, "SELECT memory_recall('dog', user_id => 'g', top_k => $1)", int64(3_000_000_000))
	if !errors.As(err, &refused) {
		panic(err)
	}
	augmented := one("SELECT memory_augment($1, session_id => 'new', top_k => $2, score_threshold => $3, user_id => 'g')",
		[]object{{"role": "user", "content": "What is the dog called?"}}, int32(3), float32(0.01)).(object)
	told := one("SELECT memory_context('s', 'dog', token_budget => $1, user_id => 'g')", 500).(object)
	answers, err := json.Marshal(object{
		"rows":    texts(recall, arguments...),
		"simple":  texts(recall, inStatement...),
		"null":    texts("SELECT content FROM memory_recall('dog', user_id => 'g', top_k => $1, score_threshold => $2)", nil, nil),
		"refused": refused.Code,
		"waits": []interface{}{
			one("SELECT memory_wait($1, user_id => 'g')", "20 s"),
			one("SELECT memory_wait($1::float8, user_id => 'g')", 20.5),
			one("SELECT memory_wait($1::interval, user_id => 'g')", 20*time.Second),
		},
		"tokens":   told["token_count"].(float64) <= 500,
		"hits":     len(augmented["memory_hits"].([]interface{})),
		"archived": one(`SELECT count(*) FROM memory_search_archive($1, "limit" => $2, user_id => $3)`, "dog", 3, "g"),
	})
	check(err)
	fmt.Println(string(answers))
}
