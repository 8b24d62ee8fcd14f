//! Assistants repeat what they are told. When a fact ends, their turns that said it too are out of date
//! with it: they are noted here, so that recall finds them by one look-up.

use crate::pg::prelude::*;
use crate::store::facts::repetitions;
use memory_agent_core::facts::repetition::is_repeated;

/// Turns that are compared with a fact that ended.
const MOST: i32 = 100;

/// Notes which turns of assistants repeat a fact that ended and was replaced. One that also says what
/// holds now is up to date. `duplicate` is the cosine from which two texts may say the same; `job` is who
/// ended the fact.
pub fn note(
    spi: &Spi,
    user_id: &str,
    fact: Uuid,
    duplicate: Option<f64>,
    job: Option<Uuid>,
) -> PgResult<()> {
    let Some(ended) = repetitions::ended(spi, user_id, fact)? else { return Ok(()) };
    // What says all of it and more did not end what the turns say.
    let still_holds = ended.by.as_deref().is_some_and(|by| is_repeated(&ended.content, by, false));
    if ended.sessions.is_empty() || still_holds {
        return Ok(());
    }
    let answers = repetitions::answers(spi, user_id, fact, &ended.sessions, MOST)?;
    let turns: Vec<Uuid> = answers
        .into_iter()
        .filter(|answer| {
            let is_similar = (answer.similarity.zip(duplicate))
                .is_some_and(|(similarity, duplicate)| similarity >= duplicate);
            let says =
                |statement: &str, is_similar| is_repeated(statement, &answer.content, is_similar);
            says(&ended.content, is_similar)
                && !ended.by.as_deref().is_some_and(|by| says(by, false))
        })
        .map(|answer| answer.id)
        .collect();
    repetitions::keep(spi, user_id, fact, &turns, job)
}
