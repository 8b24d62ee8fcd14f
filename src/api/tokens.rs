//! Tokens of the gateway: `memory_create_token`, `memory_revoke_token`, `memory_list_tokens`;
//! `memory_token_user`, with which the gateway finds out who calls; and `memory_spend`, with which it counts
//! what a caller has used of its key for a language model. A token is the one thing that says
//! whose memory a request of the gateway is about.

use crate::api::prelude::*;
use crate::identity::SHARED_USER;
use crate::store::tokens;
use memory_agent_core::limits::WORD_BYTES;
use sha2::{Digest, Sha256};

/// Begins every token: the gateway tells them from keys of other services, and scanners for secrets find
/// them in files.
const PREFIX: &str = "mat_";
/// Of a SHA-256.
const HASH_BYTES: usize = 32;
/// No call takes more, and no sum of them overflows.
const MAX_TOKENS: i64 = 1_000_000_000_000;

#[pg_extern(sql = false)]
fn memory_create_token(
    _limits: WithinLimits,
    user_id: Option<String>,
    name: Option<String>,
    expires: Option<TimestampWithTimeZone>,
    for_users: Option<bool>,
) -> PgResult<String> {
    identity::require(Level::Admin)?;
    let (user_id, name) = named(user_id, name)?;
    if expires.is_some_and(|expires| expires <= pgrx::datum::datetime_support::now()) {
        let hint = "Name a time to come, or leave it out.";
        return Err(Error::invalid("expires is not in the future", hint));
    }
    let token = new_token();
    let hash = Sha256::digest(token.as_bytes()).to_vec();
    let for_users = for_users.unwrap_or(false);
    let is_new = roles::write_as_owner(|spi| {
        tokens::insert(spi, &user_id, &name, hash, expires, for_users)
    })?;
    if !is_new {
        let hint = "Choose another name, or call memory_revoke_token first.";
        return Err(Error::duplicate("the user has a token of this name", hint));
    }
    debug1!("memory_agent: create token user={user_id}");
    Ok(token)
}

#[pg_extern(sql = false)]
fn memory_revoke_token(
    _limits: WithinLimits,
    user_id: Option<String>,
    name: Option<String>,
) -> PgResult<bool> {
    identity::require(Level::Admin)?;
    let (user_id, name) = named(user_id, name)?;
    let revoked = roles::write_as_owner(|spi| tokens::delete(spi, &user_id, &name))?;
    debug1!("memory_agent: revoke token user={user_id} revoked={revoked}");
    Ok(revoked)
}

#[pg_extern(sql = false)]
fn memory_list_tokens(_limits: WithinLimits) -> PgResult<Rows<tokens::Token>> {
    identity::require(Level::Admin)?;
    roles::read_as_owner(tokens::all).map(Rows::new)
}

/// Also of callers that no token stands for: users of JWTs, and the one person of a gateway.
#[pg_extern(sql = false)]
fn memory_spent_today(_limits: WithinLimits) -> PgResult<i64> {
    identity::require(Level::Admin)?;
    roles::read_as_owner(tokens::spent_today)
}

#[pg_extern(sql = false)]
fn memory_token_user(
    _limits: WithinLimits,
    token_hash: Option<Vec<u8>>,
) -> PgResult<Rows<(String, bool)>> {
    identity::require(Level::Gateway)?;
    let found = match token_hash {
        Some(hash) => roles::read_as_owner(|spi| tokens::user_of(spi, hash))?,
        None => Vec::new(),
    };
    Ok(Rows::new(found))
}

/// What is added before a call of the language model is a guess of it, which is reserved until it is settled with
/// what the call took: so calls that are made at the same time count, and so does one whose gateway was killed. Only
/// what is reserved is taken back.
#[pg_extern(sql = false)]
fn memory_spend(
    _limits: WithinLimits,
    token_hash: Option<Vec<u8>>,
    tokens: Option<i64>,
    at_most: Option<i64>,
    reserved: Option<i64>,
) -> PgResult<Option<i64>> {
    identity::require(Level::Gateway)?;
    let hash = token_hash.filter(|hash| hash.len() == HASH_BYTES);
    let within = |number: &i64| (0..=MAX_TOKENS).contains(number);
    let (Some(hash), Some(tokens), true) =
        (hash, tokens.filter(within), reserved.as_ref().is_none_or(within))
    else {
        let hint = "Pass the SHA-256 of a token, and numbers of tokens that are not negative.";
        let problem = "token_hash, tokens or reserved is missing or out of range";
        return Err(Error::invalid(problem, hint));
    };
    if at_most.is_some() && reserved.is_some() {
        let hint = "Pass at_most before a call of the language model, and reserved after it.";
        return Err(Error::invalid("at_most and reserved exclude each other", hint));
    }
    let sum = roles::write_as_owner(|spi| {
        let sum = tokens::spend(spi, hash, tokens, at_most, reserved)?;
        // The first of its day.
        if sum == Some(tokens) {
            tokens::tidy(spi)?;
        }
        Ok(sum)
    })?;
    debug1!("memory_agent: spend tokens={tokens} counted={}", sum.is_some());
    Ok(sum)
}

fn named(user_id: Option<String>, name: Option<String>) -> PgResult<(String, String)> {
    let (user_id, name) = (user_id.unwrap_or_default(), name.unwrap_or_default());
    identity::check_id("user_id", &user_id)?;
    if user_id == SHARED_USER {
        let hint = "Name one user; '*' is the memory that all users share.";
        return Err(Error::invalid("a token cannot be for '*'", hint));
    }
    if name.trim().is_empty() {
        let hint = format!("Say what uses it, in at most {WORD_BYTES} bytes: 'laptop'.");
        return Err(Error::invalid("name is blank", hint));
    }
    Ok((user_id, name))
}

/// 256 random bits in hexadecimal digits. A UUID of version 4 has 122 bits of the operating system's, so
/// three of them, hashed, have enough.
fn new_token() -> String {
    let mut bits = Sha256::new();
    for _ in 0..3 {
        bits.update(uuid::Uuid::new_v4().as_bytes());
    }
    bits.finalize().iter().fold(PREFIX.to_owned(), |token, byte| token + &format!("{byte:02x}"))
}
