//! `memory_agent.history`: what happened to memory, appended in the transaction that did it. The
//! row's body and reason are committed to by a salted hash, so that they can be erased later while
//! the chain over the commitments stays whole.

use crate::pg::pinned_settings::by_list;
use crate::pg::prelude::*;
use crate::pg::wake_at_commit;
use crate::store::rows::entries::new_id;
use std::cell::Cell;

thread_local! {
    /// Whether a statement of ours that may change history runs now.
    static IS_OPEN: Cell<bool> = const { Cell::new(false) };
}

/// Whether the guards of the table let a change pass. It is no setting: only [`opened`] sets it.
pub fn is_open() -> bool {
    IS_OPEN.get()
}

/// Runs a statement that the guards of the table let pass. Nothing of a caller's may run in it.
pub fn opened<T>(statement: impl FnOnce() -> PgResult<T>) -> PgResult<T> {
    /// Closes it on every way out, also when an ERROR unwinds.
    struct Opening;
    impl Drop for Opening {
        fn drop(&mut self) {
            IS_OPEN.set(false);
        }
    }
    let _opening = Opening;
    IS_OPEN.set(true);
    statement()
}

/// The commitment to a row's body and reason: SHA-256 of salt, body and, if there is a reason, a zero
/// byte and the reason. The zero byte is in neither of the texts. Arguments are SQL expressions.
pub fn commitment(salt: &str, body: &str, reason: &str) -> String {
    format!(
        "sha256({salt} || convert_to(coalesce({body}::text, ''), 'UTF8') \
                || coalesce(decode('00', 'hex') || convert_to({reason}, 'UTF8'), ''::bytea))"
    )
}

/// The commitment that version 0.1.0 wrote, which leaves the reason out. The two differ in rows with
/// a reason only.
pub fn old_commitment(salt: &str, body: &str) -> String {
    format!("sha256({salt} || convert_to({body}::text, 'UTF8'))")
}

/// The operation of rows that stand for events of another database, which an import told of. The event itself
/// is in the body under this key, beside the memory after it: nothing that a caller says looks like a row that
/// the call of a function wrote.
pub const IMPORTED: &str = "imported";

/// A key of the event that the row `h` stands for if it is an imported one, else the column of that name.
pub fn told(h: &str, key: &str) -> String {
    format!(
        "CASE {h}.op WHEN '{IMPORTED}' THEN {h}.body #>> '{{{IMPORTED},{key}}}' ELSE {h}.{key} END"
    )
}

/// What happened, for a row `h`, also where an import told of it; `imported` once that is erased.
pub fn op(h: &str) -> String {
    format!("coalesce({}, {h}.op)", told(h, "op"))
}

/// When it happened.
pub fn at(h: &str) -> String {
    // Only what was written as ISO 8601 is read again: not all that the caller's DateStyle writes can be.
    format!(
        "CASE {h}.op WHEN '{IMPORTED}' \
              THEN coalesce(({h}.body #>> '{{{IMPORTED},at}}')::timestamptz, {h}.at) ELSE {h}.at END"
    )
}

/// Where it stands among the events of its memory: what an import told of came before the import.
pub fn order(h: &str) -> String {
    format!("ROW({h}.op <> '{IMPORTED}', {}, {h}.id)", at(h))
}

/// The memory after it; `NULL` once that is erased.
pub fn body(h: &str) -> String {
    format!(
        "CASE {h}.op WHEN '{IMPORTED}' THEN nullif({h}.body - '{IMPORTED}', '{{}}') ELSE {h}.body END"
    )
}

/// A table whose rows events are about, and the body of an event about its row `e`: as it is now, without
/// what is derived from it.
type Table = (&'static str, &'static str);

/// The event of an update, which is about the version that was replaced.
pub const UPDATE: &str = "update";
pub const ENTRIES: Table = ("entries", "to_jsonb(e) - '{embedding,lexemes,content_hash}'::text[]");
pub const SUMMARIES: Table = ("session_summaries", "to_jsonb(e)");
pub const ARCHIVES: Table = ("archives", "to_jsonb(e) - 'content_hash'");

/// Appends one event about an entry, by a job if one is given.
pub fn append(
    spi: &Spi,
    user_id: &str,
    entry_id: Uuid,
    op: &str,
    reason: Option<&str>,
    job: Option<Uuid>,
) -> PgResult<()> {
    append_all(spi, user_id, (ENTRIES, &[entry_id]), op, reason, job)
}

/// Appends the same event about many rows of a table, by their ids.
pub fn append_all(
    spi: &Spi,
    user_id: &str,
    ((table, body), ids): (Table, &[Uuid]),
    op: &str,
    reason: Option<&str>,
    job: Option<Uuid>,
) -> PgResult<()> {
    wake_at_commit::history_written();
    let new_ids: Vec<Uuid> = ids.iter().map(|_| new_id()).collect();
    // The salt makes the commitment useless for guessing an erased body.
    let salts: Vec<Vec<u8>> = ids.iter().map(|_| salt()).collect();
    let sql = format!(
        "INSERT INTO memory_agent.history (id, user_id, entry_id, op, reason, body, salt, commitment, job_id) \
         SELECT n.id, $1, e.id, $2, $3, b.body, n.salt, {}, $7 \
           FROM unnest($4, $5, $6) n(about, id, salt) \
           JOIN memory_agent.{table} e \
             ON e.user_id = $1 AND e.id = n.about AND e.id = ANY ($4), \
                LATERAL (SELECT {body} AS body OFFSET 0) b",
        commitment("n.salt", "b.body", "$3")
    );
    by_list(|| spi.run(&sql, &mut params![user_id, op, reason, ids, new_ids, salts, job]))
}

/// Whether an event about an entry has this reason. Imported events have none of their own.
pub fn has(spi: &Spi, user_id: &str, entry_id: Uuid, op: &str, reason: &str) -> PgResult<bool> {
    spi.exists(
        "SELECT true FROM memory_agent.history h \
          WHERE h.user_id = $1 AND h.entry_id = $2 AND h.op = $3 AND h.reason = $4 LIMIT 1",
        &mut params![user_id, entry_id, op, reason],
    )
}

/// An event with a body of its own.
pub struct Event<'a> {
    pub id: Uuid,
    pub op: &'a str,
    pub entry_id: Option<Uuid>,
    pub reason: Option<&'a str>,
}

/// Appends an event with a body of its own.
pub fn append_event(spi: &Spi, user_id: &str, event: &Event<'_>, body: JsonbText) -> PgResult<()> {
    wake_at_commit::history_written();
    spi.run(
        &format!(
            "INSERT INTO memory_agent.history (id, user_id, op, entry_id, reason, body, salt, commitment) \
             VALUES ($1, $2, $3, $4, $5, $6, $7, {})",
            commitment("$7", "$6", "$5")
        ),
        &mut params![event.id, user_id, event.op, event.entry_id, event.reason, body, salt()],
    )
}

/// 32 random bytes: two version-4 UUIDs carry 244 bits from the operating system.
pub fn salt() -> Vec<u8> {
    let (a, b) = (uuid::Uuid::new_v4(), uuid::Uuid::new_v4());
    a.as_bytes().iter().chain(b.as_bytes()).copied().collect()
}
