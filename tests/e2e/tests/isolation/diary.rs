//! A table of the application whose rows are memory, which every role may write. Nothing in it says whose
//! a row is: it belongs to the user who wrote it first.

use crate::draw::{Draw, quote};
use memory_agent_e2e::Client;
use memory_agent_e2e::memory::run;

/// Makes the table and attaches it.
pub fn attach(superuser: &mut Client) {
    run(
        superuser,
        "CREATE TABLE diary (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body text, note text); \
         GRANT SELECT, INSERT, UPDATE, DELETE ON diary TO PUBLIC; \
         SELECT memory_attach('diary', 'body', metadata_columns => '{note}')",
    );
}

/// A statement that writes rows, with texts of whom they will belong to. A row stays the memory of who
/// wrote it first, so what others make of it says nothing of theirs.
pub fn statement(draw: &mut Draw<'_>) -> String {
    let (body, note) = (quote(&draw.said()), quote(&draw.said()));
    let row = draw.random.below(40);
    match draw.random.below(8) {
        0..=2 => format!("INSERT INTO diary (body, note) VALUES ({body}, {note})"),
        3 => format!(
            "INSERT INTO diary (body, note) SELECT {body}, {note} FROM generate_series(1, 5)"
        ),
        // Too long for memory: the row is stored all the same.
        4 => format!("INSERT INTO diary (body) VALUES (repeat({body} || ' ', 100000))"),
        // Rows of others too.
        5 => format!("UPDATE diary SET body = 'Seen by all.', note = 'seen' WHERE id % 40 = {row}"),
        6 => format!("UPDATE diary SET body = NULL, note = 'void' WHERE id % 40 = {row}"),
        _ => format!("DELETE FROM diary WHERE id % 40 = {row}"),
    }
}
