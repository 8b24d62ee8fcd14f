//! Ids that several users have, as imports make them: callers have memories with the ids of the witness's, and
//! the witness has memories with the ids of callers' rows of the attached table. Whatever finds a memory by
//! its id alone touches the wrong one sooner or later.

use crate::people::{Mode, Person, WITNESS};
use memory_agent_e2e::memory::{run, value, values};
use memory_agent_e2e::{Client, Cluster, Uuid, wait_until};
use std::time::Duration;

/// Callers who have all that the witness has.
const CALLERS: usize = 2;
/// Tables whose rows are copied, those of an id and what hangs on them.
const TABLES: [&str; 6] =
    ["sessions", "entries", "entry_windows", "session_summaries", "episodes", "archives"];

/// Plants both, when the witness has all that they will have and the table is attached.
pub fn plant(
    superuser: &mut Client,
    cluster: &Cluster,
    database: &str,
    people: &[Person],
    mode: Mode,
) {
    let witness = &people[WITNESS];
    for person in &people[..CALLERS] {
        for table in TABLES {
            let copy = format!(
                "INSERT INTO memory_agent.{table} \
                 SELECT (jsonb_populate_record(NULL::memory_agent.{table}, \
                            (replace(to_jsonb(t)::text, $1, $2)::jsonb #- '{{metadata,job_id}}') \
                            || jsonb_build_object('user_id', $3::text))).* \
                   FROM memory_agent.{table} t WHERE t.user_id = $4"
            );
            superuser
                .execute(&copy, &[&witness.secret, &person.secret, &person.name, &witness.name])
                .unwrap_or_else(|error| panic!("{table}: {error:?}"));
        }
        let mut caller = cluster.connect_as(database, &person.name);
        run(
            &mut caller,
            &format!(
                "{}INSERT INTO diary (body) SELECT 'Page ' || n || ' of {}.' FROM generate_series(1, 10) n",
                mode.naming(&person.name),
                person.secret
            ),
        );
    }
    let pages: Vec<Uuid> = values(
        superuser,
        "SELECT e.id FROM memory_agent.entries e WHERE e.source_relation = 'public.diary'",
        &[],
    );
    assert_eq!(pages.len(), 10 * CALLERS);
    for page in pages {
        let file = format!(
            "---\nid: {page}\nrole: user\nkind: turn\n---\nThe harbour of {}.",
            witness.secret
        );
        superuser
            .execute("SELECT memory_import_markdown('t/t.md', $1, $2)", &[&file, &witness.name])
            .expect("an import");
    }
    wait_until(Duration::from_secs(90), "what was planted to be done", || {
        value(superuser, "SELECT memory_wait('5 s')", &[])
    });
}
