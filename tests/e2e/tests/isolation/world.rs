//! The cluster, the users and their sessions; one step is one call and the search of all it told.

use crate::answer::{Answer, Session};
use crate::calls::{About, CALLS, Call, Level, READS};
use crate::diary;
use crate::draw::{Draw, Ids, quote};
use crate::llm::Gossip;
use crate::people::{self, APPLICATION, Actor, CALLERS, Mode, Person, SHARED};
use crate::random::Random;
use crate::twins;
use crate::witness::{Witness, tables_with_users};
use memory_agent_e2e::llm::LlmStub;
use memory_agent_e2e::memory::{run, value, values};
use memory_agent_e2e::{Client, Cluster, Uuid};
use std::collections::{BTreeSet, HashSet};

const DATABASE: &str = "db";

/// How often the ids of all rows are looked up anew.
const STEPS_BETWEEN_LOOKS: u32 = 100;
/// After so many calls that failed one more would fail too.
const MOST_TRIES: u32 = 1_000;

/// Classes of errors that wrong arguments may cause; others would be ours.
const EXPECTED_CLASSES: [&str; 5] = ["22", "02", "0A", "54", "55"];
/// Further errors: of permission, of an id that the user does not have, of one that is of another kind, of a
/// place that is taken, of writing in the wrong transaction, of an LLM that gave no answer.
const EXPECTED_STATES: [&str; 7] = ["42501", "42704", "42809", "23505", "25001", "25006", "58000"];

pub struct World {
    mode: Mode,
    random: Random,
    people: Vec<Person>,
    ids: Ids,
    /// Ids that were shown, with the user they were shown to and the statement.
    shown: Vec<(String, usize, String)>,
    /// Ids that users named in statements of theirs.
    named: HashSet<(usize, String)>,
    relations: Vec<String>,
    /// The functions that did what they were asked.
    successes: BTreeSet<&'static str>,
    sessions: Vec<Session>,
    steps: u32,
    pub witness: Witness,
    pub superuser: Client,
    stub: LlmStub,
    // Dropped last: its end would break the sessions.
    cluster: Cluster,
}

impl World {
    pub fn build(mode: Mode) -> Self {
        let mut random = Random::seeded(&format!("isolation in mode {}", mode.name()));
        let people = people::people(&mut random);
        let stub = LlmStub::start(Gossip::new());
        let cluster = Cluster::builder()
            .preload(true)
            .setting("memory_agent.identity", mode.name())
            .setting("memory_agent.llm_base_url", stub.base_url())
            .setting("memory_agent.llm_model", "stub-1")
            .setting("memory_agent.llm_max_attempts", 2)
            .setting("memory_agent.embed_on_ingest", "async")
            .setting("memory_agent.compression_threshold_tokens", 600)
            .setting("memory_agent.archive_conversations", "on")
            .setting("log_min_messages", "debug1")
            .start();
        let mut superuser = cluster.database(DATABASE).connect();
        for person in people[..=CALLERS].iter() {
            let level = if person.is_reader { "reader" } else { "user" };
            run(
                &mut superuser,
                &format!(
                    "CREATE ROLE {0} LOGIN; SELECT memory_grant('{0}', '{level}')",
                    person.name
                ),
            );
        }
        let witness = Witness::plant(&cluster, DATABASE, &people, mode);
        run(&mut superuser, &mode.naming("owner"));
        diary::attach(&mut superuser);
        twins::plant(&mut superuser, &cluster, DATABASE, &people, mode);
        let sessions = people[..CALLERS]
            .iter()
            .map(|person| Session::open(&cluster, DATABASE, &person.name))
            .collect();
        let relations = values(
            &mut superuser,
            "SELECT d.objid::regclass::text FROM pg_depend d \
               JOIN pg_extension e ON e.oid = d.refobjid AND e.extname = 'memory_agent' \
               JOIN pg_class c ON c.oid = d.objid AND c.relkind IN ('r', 'p', 'v', 'm') \
              WHERE d.deptype = 'e' AND d.classid = 'pg_class'::regclass ORDER BY 1",
            &[],
        );
        Self {
            mode,
            random,
            people,
            ids: Ids::new(),
            shown: Vec::new(),
            named: HashSet::new(),
            relations,
            successes: BTreeSet::new(),
            sessions,
            steps: 0,
            witness,
            superuser,
            stub,
            cluster,
        }
    }

    /// One call of somebody.
    pub fn step(&mut self) {
        if self.steps.is_multiple_of(STEPS_BETWEEN_LOOKS) {
            self.look_up_ids();
        }
        self.steps += 1;
        let actor = Actor::random(&mut self.random);
        match self.random.below(24) {
            0..=3 => self.read(actor),
            4 => self.write(actor),
            _ => self.call(actor),
        }
    }

    /// A table or a view; the argument cannot name anybody there.
    fn read(&mut self, actor: Actor) {
        let own = actor.identity(self.mode);
        let relation =
            self.relations[self.random.below(self.relations.len() as u64) as usize].clone();
        let mut draw = self.draw(own.unwrap_or(actor.role));
        let statement = draw.pick(READS).replace("{}", &relation);
        let statement = draw.wrapped(&statement);
        // A scan without rows may not ask whose they are.
        let is_empty = own.is_none()
            && !value::<bool>(
                &mut self.superuser,
                &format!("SELECT EXISTS (SELECT FROM {relation})"),
                &[],
            );
        let answer = self.run(actor, &statement);
        self.check(own.unwrap_or(actor.role), &statement, &answer);
        let tells_nothing = answer.error.as_deref() == Some("42501")
            || (is_empty && answer.error.is_none() && answer.values.is_empty());
        assert!(
            own.is_some() || tells_nothing || !is_guarded(&relation),
            "{statement}: {answer:?}"
        );
    }

    /// Rows of an attached table: what a role below the level `user` writes is the role's own.
    fn write(&mut self, actor: Actor) {
        let identity = actor.identity(self.mode).filter(|_| !self.people[actor.role].is_reader);
        let own = identity.unwrap_or(actor.role);
        let statement = diary::statement(&mut self.draw(own));
        let answer = self.run(actor, &statement);
        self.check(own, &statement, &answer);
        assert!(answer.error.is_none(), "{statement}: {answer:?}");
    }

    /// A call of some function.
    fn call(&mut self, actor: Actor) {
        let weights: u64 = CALLS.iter().map(|call| call.weight).sum();
        let mut at = self.random.below(weights);
        let call = CALLS.iter().find(|call| {
            let is_it = at < call.weight;
            at = at.saturating_sub(call.weight);
            is_it
        });
        self.call_function(actor, call.unwrap_or(&CALLS[0]));
    }

    /// Calls the functions that chance has not let do anything yet, until each has: calls that always
    /// fail prove nothing.
    pub fn call_the_rest(&mut self) {
        for call in CALLS.iter().filter(|call| call.level != Level::Higher) {
            let mut left = MOST_TRIES;
            while !self.successes.contains(call.function) {
                assert!(left > 0, "{} never did anything", call.function);
                left -= 1;
                let actor = Actor::random(&mut self.random);
                self.call_function(actor, call);
            }
        }
    }

    fn call_function(&mut self, actor: Actor, call: &Call) {
        let acts_for = match call.about {
            About::Argument => actor.acts_for(self.mode),
            About::Identity => actor.identity(self.mode),
            About::Nobody => Some(actor.role),
        };
        let is_allowed = match call.level {
            Level::Reader => true,
            Level::User => !self.people[actor.role].is_reader,
            Level::Higher => false,
        };
        let own = acts_for.unwrap_or(actor.role);
        let mut draw = self.draw(own);
        let mut arguments = (call.arguments)(&mut draw);
        if let (About::Argument, Some(user)) = (call.about, actor.argument) {
            arguments.push_str(&format!(", user_id => {}", quote(&self.people[user].name)));
        }
        let statement = format!("SELECT * FROM {}({arguments})", call.function);
        let statement = self.draw(own).wrapped(&statement);
        let answer = self.run(actor, &statement);
        self.check(own, &statement, &answer);
        self.check_outcome(call, is_allowed && acts_for.is_some(), &statement, &answer);
        if answer.error.is_some() {
            let role = self.people[actor.role].name.clone();
            let left = self.sessions[actor.role].surroundings();
            assert_eq!(left, (role, "\"$user\", public".to_owned()), "after {statement}");
        }
    }

    fn draw(&mut self, own: usize) -> Draw<'_> {
        Draw { random: &mut self.random, people: &self.people, ids: &self.ids, own }
    }

    fn run(&mut self, actor: Actor, statement: &str) -> Answer {
        let named = |user: Option<usize>| user.map_or("", |user| self.people[user].name.as_str());
        let mut setting = self.mode.naming(named(actor.setting));
        if statement.starts_with("PREPARE") && actor.role == APPLICATION {
            // What was prepared for one user is run for another.
            let other = self.random.below(APPLICATION as u64) as usize;
            setting = self.mode.naming(&self.people[other].name)
                + &statement.replacen("; EXECUTE", &format!("; {setting}EXECUTE"), 1);
            return self.sessions[actor.role].call(&setting);
        }
        let session = &mut self.sessions[actor.role];
        let prepared = session.call(&setting);
        assert!(prepared.error.is_none(), "{setting}: {prepared:?}");
        session.call(statement)
    }

    /// Everything told is searched for what is others'.
    fn check(&mut self, own: usize, statement: &str, answer: &Answer) {
        // Somebody's import may give an entry of theirs the id of another's row, and erase it later.
        self.named.extend(ids_in(statement).map(|id| (own, id)));
        for text in answer.texts() {
            for (number, person) in self.people.iter().enumerate() {
                if number == own || number == SHARED {
                    continue;
                }
                assert!(
                    !text.contains(&person.secret),
                    "{} was shown the secret of {} by {statement}: {text}",
                    self.people[own].name,
                    person.name
                );
            }
            for id in ids_in(text) {
                if !self.named.contains(&(own, id.clone())) {
                    self.shown.push((id, own, statement.to_owned()));
                }
            }
        }
    }

    fn check_outcome(&mut self, call: &Call, may_do: bool, statement: &str, answer: &Answer) {
        match &answer.error {
            None => {
                assert!(may_do, "{statement} was not refused: {answer:?}");
                self.successes.insert(call.function);
            }
            Some(state) => {
                let is_expected = EXPECTED_CLASSES.iter().any(|class| state.starts_with(class))
                    || EXPECTED_STATES.contains(&state.as_str());
                assert!(is_expected, "{statement}: {answer:?}");
            }
        }
    }

    /// The ids of all rows of all tables. Whatever was shown belongs to whom it was shown.
    fn look_up_ids(&mut self) {
        for table in tables_with_ids(&mut self.superuser) {
            let query = format!("SELECT t.id, t.user_id FROM memory_agent.{table} t");
            for row in self.superuser.query(&query, &[]).expect("the ids") {
                let (id, user): (Uuid, Option<String>) = (row.get(0), row.get(1));
                // What is nobody's, the definition of an attachment say, is no secret.
                if let Some(user) = user {
                    self.ids.entry(id.to_string()).or_default().insert(user);
                }
            }
        }
        for (id, shown_to, statement) in self.shown.drain(..) {
            let Some(owners) = self.ids.get(&id) else { continue };
            let reader = &self.people[shown_to].name;
            assert!(
                owners.contains(reader) || owners.contains("*"),
                "{reader} was shown {id} of {owners:?} by {statement}"
            );
        }
    }

    /// What is true of all rows and of all that the LLM was sent when all calls are done.
    pub fn finish(&mut self) {
        // What is still queued after this was not given up by anybody: the LLM here is hostile.
        value::<bool>(&mut self.superuser, "SELECT memory_wait('20 s')", &[]);
        self.look_up_ids();
        for table in tables_with_users(&mut self.superuser) {
            for person in &self.people[..SHARED] {
                let query = format!(
                    "SELECT count(*) FROM memory_agent.{table} t \
                      WHERE t.user_id <> $1 AND position($2 in to_jsonb(t)::text) > 0"
                );
                let strangers: i64 =
                    value(&mut self.superuser, &query, &[&person.name, &person.secret]);
                assert_eq!(strangers, 0, "rows of {table} hold the secret of {}", person.name);
            }
        }
        let calls = self.stub.calls();
        assert!(!calls.is_empty(), "the LLM was never called");
        for call in calls {
            let body = call.body.to_string();
            let told: BTreeSet<&str> = (self.people[..SHARED].iter())
                .filter(|person| body.contains(&person.secret))
                .map(|person| person.name.as_str())
                .collect();
            assert!(told.len() <= 1, "the LLM was sent texts of {told:?}: {body}");
        }
        self.search_log();
    }

    /// PostgreSQL logs statements that fail, and what they raise. Whatever else is in the log is ours.
    fn search_log(&self) {
        let ours = [" DEBUG:  ", " LOG:  ", " INFO:  ", " WARNING:  "];
        let log = self.cluster.log();
        let lines: Vec<&str> = log
            .lines()
            .filter(|line| ours.iter().any(|severity| line.contains(severity)))
            .collect();
        assert!(
            lines.iter().any(|line| line.contains("memory_agent: recall")),
            "no line of a recall"
        );
        for line in lines {
            let quoted = self.people.iter().find(|person| line.contains(&person.secret));
            assert!(quoted.is_none(), "the log has a text of a user: {line}");
        }
    }

    pub fn assert_everybody_owns_something(&self) {
        for person in &self.people[..APPLICATION] {
            let owned = self.ids.values().filter(|owners| owners.contains(&person.name)).count();
            assert!(owned > 0, "{} has nothing", person.name);
        }
    }
}

/// Whether a row of the relation belongs to a user.
fn is_guarded(relation: &str) -> bool {
    !["models", "grants", "attachments"].iter().any(|name| relation.ends_with(name))
}

fn tables_with_ids(superuser: &mut Client) -> Vec<String> {
    values(
        superuser,
        "SELECT c.relname::text FROM pg_class c \
          WHERE c.relnamespace = 'memory_agent'::regnamespace AND c.relkind IN ('r', 'p') \
            AND 2 = (SELECT count(*) FROM pg_attribute a \
                      WHERE a.attrelid = c.oid AND a.attname IN ('id', 'user_id')) ORDER BY 1",
        &[],
    )
}

/// The UUIDs that a text holds.
fn ids_in(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split(|c: char| !c.is_ascii_hexdigit() && c != '-')
        .filter_map(|word| Uuid::parse_str(word).ok())
        .map(|id| id.to_string())
}
