//! What is wrong after a round: everything that was committed is there once, every statement became a
//! fact once, what was replaced says by what and since when, and history tells each change once.

use super::speaker::time;
use crate::invariants;
use memory_agent_e2e::llm::{Manner, Talk, Version, Way};
use memory_agent_e2e::{DateTime, Error, Transaction, Utc};
use std::collections::BTreeMap;

/// A fact as it is stored.
#[derive(Clone, Debug)]
struct Row {
    user: String,
    session: Option<String>,
    content: String,
    /// The numbers of the sayings that are its sources, and how many sources it has.
    said: Vec<i32>,
    sources: i64,
    since: DateTime<Utc>,
    state: String,
    reason: Option<String>,
    valid_to: Option<DateTime<Utc>>,
    /// The numbers of the sayings of what replaced it.
    replaced_by: Option<Vec<i32>>,
    history: Vec<String>,
}

/// Everything that is wrong with what was said in a talk that began then.
pub fn problems(
    transaction: &mut Transaction<'_>,
    talk: &Talk,
    began: DateTime<Utc>,
) -> Result<Vec<String>, Error> {
    let users = talk.users();
    let mut problems = invariants::broken(transaction, &users)?;
    problems.extend(turns(transaction, talk, &users, began)?);
    let mut rows = rows(transaction, &users)?;
    for version in talk.versions() {
        let of_episodes = (talk.speakers.iter()).any(|speaker| {
            speaker.way == Way::Episodes
                && (&speaker.user, &speaker.session) == (&version.user, &version.session)
        });
        let found = match of_episodes {
            true => of_episode(&version, &mut rows),
            false => of_turns(&version, talk.is_shared(&version.topic), began, &mut rows),
        };
        problems.extend(found.err());
    }
    // What an episode said in between may have been a fact for a while, or never.
    let is_past = |row: &Row| {
        row.state == "inactive"
            && talk.versions().iter().any(|version| {
                let place = (&version.user, &version.session, &version.fact);
                place == (&row.user, &row.session, &row.content)
            })
            && talk.speakers.iter().any(|speaker| {
                speaker.way == Way::Episodes
                    && (&speaker.user, &speaker.session) == (&row.user, &row.session)
            })
    };
    problems
        .extend(rows.iter().filter(|row| !is_past(row)).map(|row| format!("too many: {row:?}")));
    Ok(problems)
}

/// Every saying that was committed is there once, as it was said, and no other.
fn turns(
    transaction: &mut Transaction<'_>,
    talk: &Talk,
    users: &[String],
    began: DateTime<Utc>,
) -> Result<Vec<String>, Error> {
    let rows = transaction.query(
        "SELECT concat_ws(' ', user_id, session_id, metadata->>'n', content), created_at \
           FROM memory_agent.entries \
          WHERE user_id = ANY ($1) AND kind = 'turn' AND role = 'user'",
        &[&users],
    )?;
    let mut found: Vec<(String, DateTime<Utc>)> =
        rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    let mut problems = Vec::new();
    for speaker in &talk.speakers {
        for saying in Talk::committed(speaker) {
            let place = [Some(&speaker.user), speaker.session.as_ref()];
            let place: Vec<&str> = place.into_iter().flatten().map(String::as_str).collect();
            let expected = format!("{} {} {}", place.join(" "), saying.number, saying.text);
            let expected = (expected, time(began, saying.number));
            match found.iter().position(|turn| *turn == expected) {
                Some(index) => drop(found.swap_remove(index)),
                None => problems.push(format!("a turn is lost: {expected:?}")),
            }
        }
    }
    problems.extend(found.iter().map(|turn| format!("a turn too many: {turn:?}")));
    Ok(problems)
}

fn rows(transaction: &mut Transaction<'_>, users: &[String]) -> Result<Vec<Row>, Error> {
    let said = |entry: &str| {
        format!(
            "ARRAY(SELECT (t.metadata->>'n')::int FROM memory_agent.entries t \
                    WHERE t.user_id = {entry}.user_id AND t.id = ANY ({entry}.source_ids) ORDER BY 1)"
        )
    };
    // A fact without a text notes that an assistant repeated something.
    let sql = format!(
        "SELECT f.user_id, f.session_id, f.content, {}, coalesce(cardinality(f.source_ids), 0)::int8, \
                f.created_at, f.state, f.state_reason, f.valid_to, \
                CASE WHEN f.replaced_by IS NOT NULL THEN {} END, \
                ARRAY(SELECT h.op FROM memory_agent.history h \
                       WHERE h.user_id = f.user_id AND h.entry_id = f.id ORDER BY h.at, h.id) \
           FROM memory_agent.entries f \
           LEFT JOIN memory_agent.entries n ON n.user_id = f.user_id AND n.id = f.replaced_by \
          WHERE f.user_id = ANY ($1) AND f.kind = 'fact' AND f.content <> '' ORDER BY f.id",
        said("f"),
        said("n")
    );
    let rows = transaction.query(&sql, &[&users])?;
    let row = |row: &memory_agent_e2e::Row| Row {
        user: row.get(0),
        session: row.get(1),
        content: row.get(2),
        said: row.get(3),
        sources: row.get(4),
        since: row.get(5),
        state: row.get(6),
        reason: row.get(7),
        valid_to: row.get(8),
        replaced_by: row.get(9),
        history: row.get(10),
    };
    Ok(rows.iter().map(row).collect())
}

/// Takes the row of a version out of the rows, and sees that it is right.
fn of_turns(
    version: &Version,
    is_shared: bool,
    began: DateTime<Utc>,
    rows: &mut Vec<Row>,
) -> Result<(), String> {
    let said: Vec<i32> = version.said.iter().map(|number| *number as i32).collect();
    let is_it = |row: &Row| {
        (&row.user, &row.session, &row.content, &row.said)
            == (&version.user, &version.session, &version.fact, &said)
    };
    let Some(index) = rows.iter().position(is_it) else {
        return Err(format!("missing: {version:?}"));
    };
    let row = rows.remove(index);
    let (state, reason, history) = match version.ended {
        None => ("active", None, ["add"].as_slice()),
        Some((_, true)) => ("inactive", Some("contradicted"), ["add", "delete"].as_slice()),
        Some((_, false)) => ("inactive", Some("superseded"), ["add", "supersede"].as_slice()),
    };
    // What was learned late was over when it was stored.
    let was_late = is_shared && row.history == ["add"];
    // An eviction takes a fact out of the window, not out of memory.
    let is_state = row.state == state || (state == "active" && row.state == "archived");
    let is_reason = row.reason.as_deref() == reason || row.state == "archived";
    let by = row.replaced_by.as_ref().and_then(|said| said.first()).map(|number| *number as usize);
    let is_by = match version.ended {
        // By any of those that were said later.
        Some((next, _)) if is_shared => by.is_some_and(|by| by >= next),
        ended => by == ended.map(|(next, _)| next),
    };
    let is_right = is_state
        && is_reason
        && is_by
        && row.sources == row.said.len() as i64
        && row.since == time(began, version.said[0])
        && row.valid_to == by.map(|by| time(began, by))
        && (was_late || row.history == history);
    if is_right { Ok(()) } else { Err(format!("wrong: {row:#?} for {version:?}")) }
}

/// Of the facts of episodes the last one on a topic holds; when those before it did is not promised.
fn of_episode(version: &Version, rows: &mut Vec<Row>) -> Result<(), String> {
    if version.ended.is_some() {
        return Ok(());
    }
    let is_it = |row: &Row| {
        row.state != "inactive"
            && (&row.user, &row.session, &row.content)
                == (&version.user, &version.session, &version.fact)
    };
    let Some(index) = rows.iter().position(is_it) else {
        return Err(format!("missing: {version:?}"));
    };
    rows.remove(index);
    Ok(())
}

/// Texts that were only said in transactions that were rolled back, if the LLM was asked about one.
pub fn leaked<'a>(talk: &'a Talk, asked: &'a [String]) -> impl Iterator<Item = String> + 'a {
    let acts = talk.speakers.iter().flat_map(|speaker| &speaker.acts);
    let struck = acts.filter(|act| act.manner == Manner::RolledBack).flat_map(|act| &act.sayings);
    struck
        .filter(|saying| asked.iter().any(|text| text == &saying.text))
        .map(|saying| format!("the LLM was asked about what was rolled back: {saying:?}"))
}

/// The heads of the users' chains, for a later look: (user, rows sealed, head).
pub type Heads = BTreeMap<String, (i64, Option<Vec<u8>>)>;

/// What is wrong with the chains of these users, and where their heads are now. The heads that were kept
/// have to be in them.
pub fn chains(
    transaction: &mut Transaction<'_>,
    users: &[String],
    heads: &mut Heads,
    must_be_sealed: bool,
) -> Result<Vec<String>, Error> {
    let mut problems = Vec::new();
    for user in users {
        let (seq, head) = heads.get(user).cloned().unwrap_or_default();
        let seq = head.is_some().then_some(seq);
        let found = transaction.query(
            "SELECT v.state, v.seq, v.hash, v.sealed, v.unsealed, v.detail, \
                    (SELECT count(*) FROM memory_agent.history h WHERE h.user_id = $1) \
               FROM memory_verify_history($1, $2, $3) v",
            &[user, &seq, &head],
        )?;
        let Some(first) = found.first() else {
            problems.push(format!("{user} has no history"));
            continue;
        };
        let (state, sealed, unsealed): (String, i64, i64) =
            (first.get(0), first.get(3), first.get(4));
        let is_whole = found.len() == 1
            && state == "intact"
            && sealed + unsealed == first.get::<_, i64>(6)
            && (unsealed == 0 || !must_be_sealed);
        if !is_whole {
            let details: Vec<(String, Option<String>)> =
                found.iter().map(|row| (row.get(0), row.get(5))).collect();
            problems.push(format!("history of {user}: {sealed} + {unsealed} rows, {details:?}"));
        }
        heads.insert(user.clone(), (first.get::<_, Option<i64>>(1).unwrap_or(0), first.get(2)));
    }
    Ok(problems)
}
