//! Thousands of random calls by random users: nothing that a function, a view or a table returns
//! belongs to another user. Users are settings of one role for half of the calls, and roles of their
//! own for the other half.

use crate::cases;
use crate::random::Random;
use memory_agent_e2e::memory::run;
use memory_agent_e2e::{Client, Json, json, shared};
use postgres::SimpleQueryMessage;
use std::collections::BTreeSet;

const USERS: usize = 6;
const WORDS: [&str; 12] = [
    "tea", "dog", "Rome", "red", "train", "piano", "seven", "snow", "bread", "north", "green",
    "sister",
];

/// What each user should have, counted beside the database.
#[derive(Default)]
struct Model {
    /// Ids of entries, per user; the last is the shared memory.
    ids: Vec<BTreeSet<String>>,
    turns: Vec<i64>,
}

struct World {
    random: Random,
    model: Model,
    /// One session of a role that names its users by the setting, and one per user's own role.
    by_setting: Client,
    by_role: Vec<Client>,
    superuser: Client,
}

fn user(number: usize) -> String {
    format!("isolated_{number}")
}

/// Every content of a user carries this word.
fn tag(number: usize) -> String {
    format!("owner{number}owner")
}

impl World {
    fn build(database: &str) -> Self {
        let mut superuser = shared().database(database).connect();
        run(
            &mut superuser,
            "CREATE ROLE isolated_application LOGIN; SELECT memory_grant('isolated_application', 'admin')",
        );
        run(
            &mut superuser,
            "SELECT memory_revoke('isolated_application'), memory_grant('isolated_application', 'user')",
        );
        for number in 0..USERS {
            let user = user(number);
            run(
                &mut superuser,
                &format!("CREATE ROLE {user} LOGIN; SELECT memory_grant('{user}', 'user')"),
            );
        }
        let session = |role: &str| {
            let mut client = shared().connect_as(database, role);
            run(&mut client, "SET memory_agent.rerank = off");
            client
        };
        Self {
            random: Random::seeded("isolation"),
            model: Model { ids: vec![BTreeSet::new(); USERS + 1], turns: vec![0; USERS + 1] },
            by_setting: session("isolated_application"),
            by_role: (0..USERS).map(|number| session(&user(number))).collect(),
            superuser,
        }
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.random.below(from.len() as u64) as usize]
    }

    fn words(&mut self) -> String {
        (0..1 + self.random.below(4)).map(|_| self.pick(&WORDS)).collect::<Vec<_>>().join(" ")
    }

    fn session(&mut self) -> &'static str {
        self.pick(&["'one'", "'two'", "'three'"])
    }

    /// One call of some user, and the check of all it returned.
    fn step(&mut self) {
        let number = self.random.below(USERS as u64) as usize;
        let by_setting = self.random.below(2) == 0;
        if self.random.below(40) == 0 {
            let statement = format!(
                "SELECT memory_ingest({}, 'user', '{} {}', user_id => '*')",
                self.session(),
                tag(USERS),
                self.words()
            );
            let answer = call(&mut self.superuser, &statement);
            self.remember(USERS, 1, &answer);
            return;
        }
        let (statement, turns) = self.statement(number);
        let embed = if self.random.below(20) == 0 { "sync" } else { "off" };
        let client = if by_setting { &mut self.by_setting } else { &mut self.by_role[number] };
        let setting = if by_setting { user(number) } else { String::new() };
        run(
            client,
            &format!(
                "SET memory_agent.user_id = '{setting}'; SET memory_agent.embed_on_ingest = {embed}"
            ),
        );
        let answer = call(client, &statement);
        self.check(number, &statement, &answer);
        if statement.contains("memory_ingest") || statement.contains("memory_add") {
            self.remember(number, turns, &answer);
        }
    }

    /// A random statement, and how many turns it stores.
    fn statement(&mut self, number: usize) -> (String, i64) {
        let (session, words, tag) = (self.session(), self.words(), tag(number));
        let statement = match self.random.below(16) {
            0..=2 => {
                return (format!("SELECT memory_ingest({session}, 'user', '{tag} {words}')"), 1);
            }
            3 => {
                let turns = json!([{"role": "user", "content": format!("{tag} {words}")},
                                   {"role": "assistant", "content": format!("{tag} yes")}]);
                return (format!("SELECT memory_ingest_batch('{turns}', {session})"), 2);
            }
            4 => {
                let key = self.pick(&["'home'", "'job'", "NULL"]);
                let scope = self.pick(&["'one'", "NULL"]);
                return (
                    format!(
                        "SELECT memory_add('{tag} {words}', {scope}, infer => false, fact_key => {key})"
                    ),
                    0,
                );
            }
            5 => format!("SELECT memory_close_episode({session})"),
            6..=8 => {
                let session = self.pick(&["'one'", "'two'", "NULL"]);
                let more = self.pick(&[
                    "top_k => 100, score_threshold => 0",
                    "token_budget => 60",
                    "as_of => now() - interval '1 second', top_k => 50",
                    "kinds => '{fact}', top_k => 50",
                    r#"filter => '{"role": ["user", "memory"], "session_id": ["one", "two"]}', top_k => 50"#,
                    "agent_id => 'default', top_k => 30",
                    "rewrites => '{tea dog,red train}', top_k => 30",
                ]);
                // Half of the questions name another user's word.
                let other = (number + 1) % USERS;
                let asked =
                    if self.random.below(2) == 0 { self::tag(other) } else { String::new() };
                format!("SELECT * FROM memory_recall('{words} {asked}', {session}, {more})")
            }
            9 => format!("SELECT memory_explain('{words}', {session}, top_k => 50)::text"),
            10 => format!("SELECT memory_context({session}, '{words}', 300)::text"),
            11 => format!("SELECT memory_stats({})::text", self.pick(&["'one'", "NULL", "NULL"])),
            12 => "SELECT * FROM memory_entries".to_owned(),
            13 => {
                let table = self.pick(&[
                    "entries",
                    "sessions",
                    "episodes",
                    "entry_windows",
                    "jobs",
                    "session_summaries",
                ]);
                format!("SELECT * FROM memory_agent.{table}")
            }
            14 => "SELECT * FROM memory_jobs".to_owned(),
            _ => "SELECT * FROM memory_status()".to_owned(),
        };
        (statement, 0)
    }

    fn remember(&mut self, number: usize, turns: i64, answer: &[Vec<String>]) {
        self.model.ids[number].extend(answer.iter().map(|row| row[0].clone()));
        self.model.turns[number] += turns;
    }

    fn check(&self, number: usize, statement: &str, answer: &[Vec<String>]) {
        for value in answer.iter().flatten() {
            // Entries are recognised by their word, other rows by the name of their user.
            for other in (0..USERS).filter(|other| *other != number) {
                assert!(
                    !value.contains(&tag(other)) && !value.contains(&user(other)),
                    "{} was shown {value} of {} by {statement}",
                    user(number),
                    user(other)
                );
            }
        }
        if statement.contains("memory_explain") {
            let document: Json = serde_json::from_str(&answer[0][0]).unwrap();
            for candidate in document["candidates"].as_array().unwrap() {
                let id = candidate["id"].as_str().unwrap();
                assert!(
                    self.model.ids[number].contains(id) || self.model.ids[USERS].contains(id),
                    "{} was shown the entry {id} by {statement}",
                    user(number)
                );
            }
        }
        if statement.contains("memory_stats(NULL)") {
            let document: Json = serde_json::from_str(&answer[0][0]).unwrap();
            assert_eq!(
                document["turns"].as_i64().unwrap(),
                self.model.turns[number],
                "turns of {}",
                user(number)
            );
        }
    }
}

/// All values of all rows, as text.
fn call(client: &mut Client, statement: &str) -> Vec<Vec<String>> {
    let messages =
        client.simple_query(statement).unwrap_or_else(|error| panic!("{statement}: {error:?}"));
    messages
        .iter()
        .filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => {
                Some((0..row.len()).map(|at| row.get(at).unwrap_or_default().to_owned()).collect())
            }
            _ => None,
        })
        .collect()
}

#[test]
fn nobody_sees_another_users_memory() {
    let mut world = World::build("isolation");
    for _ in 0..cases(2000) {
        world.step();
    }
    // The database holds what the model says, so the calls were not all refused or empty.
    for number in 0..=USERS {
        let owner = if number == USERS { "*".to_owned() } else { user(number) };
        let turns =
            "SELECT count(*) FROM memory_agent.entries WHERE user_id = $1 AND kind = 'turn'";
        let stored: i64 = world.superuser.query_one(turns, &[&owner]).unwrap().get(0);
        assert!(stored > 0 && stored == world.model.turns[number], "{owner}: {stored}");
        let foreign =
            "SELECT count(*) FROM memory_agent.entries WHERE user_id = $1 AND content NOT LIKE $2";
        let pattern = format!("{}%", tag(number));
        assert_eq!(
            world.superuser.query_one(foreign, &[&owner, &pattern]).unwrap().get::<_, i64>(0),
            0
        );
    }
}
