//! What roles may do and see: privileges, row-level security, identities, and attacks on the
//! section in which the extension's SQL runs as its owner. Each test has its own database; roles
//! belong to the cluster, so each test names its own.

mod attacks;
mod claims;
mod estimates;
mod identity;
mod ids;
mod levels;
mod matrix;
mod messages;
mod predefined;
mod privileges;
mod restoration;
mod row_types;
mod settings;
mod surroundings;
mod visibility;

use memory_agent_e2e::{Client, Error};
use std::collections::BTreeSet;

/// Creates roles that can log in, without any privilege.
fn create_roles(superuser: &mut Client, names: &[&str]) {
    for name in names {
        superuser.batch_execute(&format!("CREATE ROLE \"{name}\" LOGIN")).expect("a new role");
    }
}

/// Gives a role a level.
fn grant(superuser: &mut Client, role: &str, level: &str) {
    superuser
        .execute("SELECT memory_grant($1::text::regrole, $2)", &[&format!("\"{role}\""), &level])
        .unwrap_or_else(|error| panic!("memory_grant({role}, {level}): {error:?}"));
}

/// Stores a turn of a user; a superuser may name anyone.
fn remember(client: &mut Client, user: &str, content: &str) {
    client
        .execute("SELECT public.memory_ingest('s', 'user', $1, user_id => $2)", &[&content, &user])
        .unwrap_or_else(|error| panic!("memory_ingest for {user}: {error:?}"));
}

/// The users whose rows a query shows; its one column is the user.
fn users(client: &mut Client, query: &str) -> Result<BTreeSet<String>, Error> {
    Ok(client.query(query, &[])?.iter().map(|row| row.get(0)).collect())
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}
