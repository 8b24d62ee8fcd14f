//! Which facts the view of what is known shows: those of today page by page, narrowed by what the visitor chose, found
//! by words and by meaning, not verified, or those that held at a time. A page reads a bounded number of facts,
//! however many there are.

use super::parts;
use super::request::{Asked, Trouble};
use super::rows::{self, COLUMNS, Entry};
use super::uploads::Fields;
use crate::db::memory::Param;
use crate::db::place::{Place, moment, written};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tokio_postgres::types::Type;

/// Facts on a page.
pub const PAGE: usize = 50;
/// Facts that are looked through for a page, by time: more have a next page.
const READ: i64 = 500;
/// Most facts that are shown of a time, or that are not verified: those that are nearest to the question.
pub const NEAREST: i64 = 100;
/// Facts that are found by their meaning.
pub const MEANT: i64 = 30;
/// What is less probable to have to do with the words is not shown.
const LEAST: f64 = 0.05;
/// The question when the visitor gives none.
const QUESTION: &str = "What is known about the user?";

/// What the visitor chose.
#[derive(Debug, Default)]
pub struct Chosen {
    pub words: Option<String>,
    pub session: Option<String>,
    pub key: Option<String>,
    pub marker: Option<String>,
    /// The program that they were imported from.
    pub program: Option<String>,
    pub shared: bool,
    pub unverified: bool,
    pub sort: Sort,
    pub as_of: Option<String>,
}

/// The order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    /// The newest first; what was searched for, the best first.
    #[default]
    Usual,
    Newest,
    Oldest,
}

impl Chosen {
    /// # Errors
    /// The time is invalid.
    pub fn read(query: &Fields) -> Result<Self, Trouble> {
        let text = |name: &str| query.get(name).map(str::trim).filter(|text| !text.is_empty());
        let own = |name: &str| text(name).map(str::to_owned);
        let as_of = text("as_of").map(|at| {
            moment(at)
                .map(str::to_owned)
                .ok_or_else(|| Trouble::invalid("This is not a time: write 2026-01-31T10:00."))
        });
        Ok(Self {
            words: own("q"),
            session: own("session"),
            key: own("key"),
            marker: own("marker"),
            program: own("program"),
            shared: text("shared").is_some(),
            unverified: text("unverified").is_some(),
            sort: match text("sort") {
                Some("newest") => Sort::Newest,
                Some("oldest") => Sort::Oldest,
                _ => Sort::Usual,
            },
            as_of: as_of.transpose()?,
        })
    }

    /// Whether it narrows what is shown.
    pub fn narrows(&self) -> bool {
        let texts = [&self.words, &self.session, &self.key, &self.marker, &self.program];
        self.shared || self.unverified || texts.iter().any(|text| text.is_some())
    }

    /// The filter of a recall. It knows no keys.
    fn filter(&self) -> Value {
        let mut filter = Map::new();
        if let Some(marker) = &self.marker {
            filter.insert("markers_any".to_owned(), json!([marker]));
        }
        if let Some(program) = &self.program {
            filter.insert("metadata".to_owned(), json!({"imported_from": program}));
        }
        if let Some(session) = &self.session {
            filter.insert("session_id".to_owned(), json!(session));
        }
        if self.unverified {
            filter.insert("trust".to_owned(), json!("unverified"));
        }
        Value::Object(filter)
    }
}

/// A value that can be chosen, and how many facts have it.
#[derive(Debug, Deserialize)]
pub struct Counted {
    pub name: String,
    pub facts: i64,
}

/// What can be chosen, out of the newest facts.
#[derive(Debug, Default, Deserialize)]
pub struct Choices {
    pub sessions: Vec<Counted>,
    pub keys: Vec<Counted>,
    pub markers: Vec<Counted>,
    pub programs: Vec<Counted>,
    pub shared: i64,
}

/// Facts, and what is known of the others.
#[derive(Debug, Default)]
pub struct Known {
    pub facts: Vec<Entry>,
    /// Those among them, at the end, that were found by their meaning only.
    pub meant: usize,
    /// The place of the next page.
    pub next: Option<String>,
    /// How many facts there are of those that were looked through, and whether there are more.
    pub of: Option<(i64, bool)>,
    pub choices: Choices,
}

/// Reads them.
///
/// # Errors
/// What memory says.
pub async fn known(asked: &Asked, chosen: &Chosen) -> Result<Known, Trouble> {
    let mut known = match (&chosen.as_of, &chosen.words) {
        (Some(as_of), _) => nearest(asked, chosen, Some(as_of)).await?,
        (None, _) if chosen.unverified => nearest(asked, chosen, None).await?,
        (None, Some(words)) => found(asked, chosen, words).await?,
        (None, None) => by_time(asked, chosen).await?,
    };
    if known.next.is_none() && chosen.sort != Sort::Usual {
        sort(&mut known, chosen.sort);
    }
    Ok(known)
}

fn sort(known: &mut Known, sort: Sort) {
    known.facts.sort_by(|left, right| {
        let order = (&left.created_at, &left.id).cmp(&(&right.created_at, &right.id));
        if sort == Sort::Oldest { order } else { order.reverse() }
    });
    known.meant = 0;
}

/// The facts that are looked through: `$1` the user, `$2` the session, `$3` and `$4` the place, `$5` how many, `$6`
/// whether the oldest come first.
const NEAR: &str = "near AS MATERIALIZED ( \
         SELECT e.*, row_number() OVER () AS place FROM memory_list( \
             $2, 'fact', user_id => $1, from_at => $3::timestamp AT TIME ZONE 'UTC', from_id => $4, \
             \"limit\" => $5, oldest_first => $6) e)";
/// Those of them that were chosen: `$7` a key, `$8` a marker, `$9` a program, `$10` whether they are shared.
const FITS: &str = "($7::text IS NULL OR e.fact_key = $7) AND ($8::text IS NULL OR $8 = ANY (e.markers)) \
     AND ($9::text IS NULL OR e.entry_metadata ->> 'imported_from' = $9) AND (NOT $10 OR e.user_id = '*')";
/// What can be chosen.
const CHOICES: &str = "jsonb_build_object( \
     'sessions', (SELECT coalesce(jsonb_agg(to_jsonb(v)), '[]') FROM (SELECT e.session_id AS name, count(*) AS facts \
         FROM near e WHERE e.session_id IS NOT NULL GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 40) v), \
     'keys', (SELECT coalesce(jsonb_agg(to_jsonb(v)), '[]') FROM (SELECT e.fact_key AS name, count(*) AS facts \
         FROM near e WHERE e.fact_key IS NOT NULL GROUP BY 1 ORDER BY 1 LIMIT 100) v), \
     'markers', (SELECT coalesce(jsonb_agg(to_jsonb(v)), '[]') FROM (SELECT m.name, count(*) AS facts \
         FROM near e, unnest(e.markers) m (name) GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 40) v), \
     'programs', (SELECT coalesce(jsonb_agg(to_jsonb(v)), '[]') FROM (SELECT e.entry_metadata ->> 'imported_from' AS name, \
         count(*) AS facts FROM near e WHERE e.entry_metadata ->> 'imported_from' IS NOT NULL GROUP BY 1 ORDER BY 1 LIMIT 40) v), \
     'shared', (SELECT count(*) FROM near e WHERE e.user_id = '*'))";

/// What [`by_time`] and [`found`] read.
#[derive(Debug, Deserialize)]
struct Page {
    facts: Vec<Entry>,
    /// How many facts were looked through, and the last two of them.
    read: i64,
    last: Option<(String, String)>,
    beyond: Option<(String, String)>,
    choices: Option<Choices>,
    #[serde(default)]
    meant: usize,
}

/// A page of the facts of today.
async fn by_time(asked: &Asked, chosen: &Chosen) -> Result<Known, Trouble> {
    let from = asked.query.get("from").map(|from| {
        Place::read(from).ok_or_else(|| Trouble::invalid("This is not a page of facts."))
    });
    let from = from.transpose()?;
    let is_oldest_first = chosen.sort == Sort::Oldest;
    let order = if is_oldest_first { "ASC" } else { "DESC" };
    let is_first = from.is_none();
    // The pages after the first one need no counts; where something was chosen, it may be far away.
    let read = if is_first || chosen.narrows() { READ } else { PAGE as i64 };
    let choices = if is_first { CHOICES } else { "NULL" };
    let sql = format!(
        "WITH {NEAR} SELECT jsonb_build_object( \
             'facts', (SELECT coalesce(jsonb_agg(to_jsonb(f)), '[]') FROM (SELECT {COLUMNS} FROM near e \
                        WHERE e.place < $5 AND {FITS} \
                        ORDER BY e.created_at {order}, e.id {order} LIMIT $11) f), \
             'read', (SELECT count(*) FROM near), \
             'last', (SELECT jsonb_build_array(e.created_at AT TIME ZONE 'UTC', e.id) FROM near e \
                       WHERE e.place = $5 - 1), \
             'beyond', (SELECT jsonb_build_array(e.created_at AT TIME ZONE 'UTC', e.id) FROM near e \
                         WHERE e.place = $5), \
             'choices', {choices})"
    );
    let (user, read, limit) = (asked.user_id(), read + 1, PAGE as i64 + 1);
    let (at, id) = (from.as_ref().map(|from| &from.at), from.as_ref().map(|from| from.id));
    let params: [Param<'_>; 11] = [
        (&user, Type::TEXT),
        (&chosen.session, Type::TEXT),
        (&at, Type::TEXT),
        (&id, Type::UUID),
        (&read, Type::INT8),
        (&is_oldest_first, Type::BOOL),
        (&chosen.key, Type::TEXT),
        (&chosen.marker, Type::TEXT),
        (&chosen.program, Type::TEXT),
        (&chosen.shared, Type::BOOL),
        (&limit, Type::INT8),
    ];
    let pages: Vec<Page> = rows::read(&asked.rows(&sql, &params).await?)?;
    let page = pages.into_iter().next().ok_or_else(Trouble::nothing_here)?;
    let Page { mut facts, read: seen, last, beyond, choices, .. } = page;
    let has_more = facts.len() > PAGE;
    // Oldest first a page begins at its place, newest first after it.
    let next = match (has_more, is_oldest_first) {
        (true, true) => facts.get(PAGE).map(|fact| written(&fact.created_at, &fact.id)),
        (true, false) => facts.get(PAGE - 1).map(|fact| written(&fact.created_at, &fact.id)),
        (false, true) => beyond.map(|(at, id)| written(&at, id)),
        (false, false) => last.filter(|_| seen >= read).map(|(at, id)| written(&at, id)),
    };
    facts.truncate(PAGE);
    let of = is_first.then_some((seen.min(read - 1), seen >= read));
    Ok(Known { facts, meant: 0, next, of, choices: choices.unwrap_or_default() })
}

/// Whether all words that are sought, or parts of words, are in texts.
fn says(texts: &str) -> String {
    format!(
        "NOT EXISTS (SELECT FROM sought w WHERE strpos(lower(concat_ws(' ', {texts})), w.word) = 0)"
    )
}

/// The facts with these words, or parts of words, among the newest ones; those with these words among all; then those
/// of all that have to do with them.
async fn found(asked: &Asked, chosen: &Chosen, words: &str) -> Result<Known, Trouble> {
    let (fact_says, found_says) = (says("e.content, e.fact_key"), says("r.content"));
    let sql = format!(
        "WITH {NEAR}, sought AS (SELECT w.word FROM regexp_split_to_table(lower($11), '\\s+') w (word) \
                                  WHERE w.word <> ''), \
         said AS MATERIALIZED ( \
             SELECT e.id FROM near e \
              WHERE {FITS} AND {fact_says} \
              ORDER BY e.created_at DESC, e.id DESC LIMIT {PAGE}), \
         meant AS MATERIALIZED ( \
             SELECT r.id, CASE WHEN {found_says} THEN 0 ELSE r.place END AS rank \
               FROM memory_recall($11, kinds => '{{fact}}', top_k => {MEANT}, rerank => false, filter => $12) \
                    WITH ORDINALITY r (id, kind, role, content, score, relevance, similarity, lexical, recency, \
                                       markers, token_count, session_id, episode_id, metadata, created_at, place) \
              WHERE (r.relevance >= {LEAST} OR {found_says}) AND NOT EXISTS (SELECT FROM said s WHERE s.id = r.id)), \
         by_meaning AS MATERIALIZED ( \
             SELECT e.*, m.rank FROM meant m, LATERAL memory_list(id => m.id, user_id => $1) e WHERE {FITS}) \
         SELECT jsonb_build_object( \
             'facts', (SELECT coalesce(jsonb_agg(to_jsonb(f) - 'rank' ORDER BY f.rank, f.created_at DESC, f.id DESC), '[]') FROM ( \
                          SELECT 0 AS rank, {COLUMNS} FROM near e JOIN said s ON s.id = e.id \
                          UNION ALL SELECT e.rank, {COLUMNS} FROM by_meaning e) f), \
             'meant', (SELECT count(*) FROM by_meaning e WHERE e.rank > 0), \
             'read', (SELECT count(*) FROM near), 'choices', {CHOICES})"
    );
    let (user, read, newest) = (asked.user_id(), READ + 1, false);
    let (at, id): (Option<&str>, Option<uuid::Uuid>) = (None, None);
    let filter = chosen.filter();
    let params: [Param<'_>; 12] = [
        (&user, Type::TEXT),
        (&chosen.session, Type::TEXT),
        (&at, Type::TEXT),
        (&id, Type::UUID),
        (&read, Type::INT8),
        (&newest, Type::BOOL),
        (&chosen.key, Type::TEXT),
        (&chosen.marker, Type::TEXT),
        (&chosen.program, Type::TEXT),
        (&chosen.shared, Type::BOOL),
        (&words, Type::TEXT),
        (&filter, Type::JSONB),
    ];
    let pages: Vec<Page> = rows::read(&asked.rows(&sql, &params).await?)?;
    let page = pages.into_iter().next().ok_or_else(Trouble::nothing_here)?;
    Ok(Known {
        facts: page.facts,
        meant: page.meant,
        next: None,
        of: Some((page.read.min(READ), page.read > READ)),
        choices: page.choices.unwrap_or_default(),
    })
}

/// The facts that are nearest to a question: of a time, or those that are not verified.
async fn nearest(asked: &Asked, chosen: &Chosen, as_of: Option<&str>) -> Result<Known, Trouble> {
    let sql = "SELECT to_jsonb(f) FROM ( \
                   SELECT r.id, r.kind, r.role, r.content, r.created_at AT TIME ZONE 'UTC' AS created_at, \
                          r.session_id, r.markers, r.metadata \
                     FROM memory_recall($1, kinds => '{fact}', top_k => $2, rerank => false, filter => $4, \
                                        as_of => $3::timestamp AT TIME ZONE 'UTC') r \
                    ORDER BY r.created_at DESC, r.id DESC) f";
    let question = chosen.words.as_deref().unwrap_or(QUESTION);
    let filter = chosen.filter();
    let params: [Param<'_>; 4] = [
        (&question, Type::TEXT),
        (&NEAREST, Type::INT8),
        (&as_of, Type::TEXT),
        (&filter, Type::JSONB),
    ];
    let mut facts: Vec<Entry> = rows::read(&asked.rows(sql, &params).await?)?;
    if let (Some(words), Some(_)) = (&chosen.words, as_of) {
        let words: Vec<String> =
            words.to_lowercase().split_whitespace().map(str::to_owned).collect();
        facts.retain(|fact| {
            let text = fact.content.to_lowercase();
            words.iter().all(|word| text.contains(word))
        });
    }
    Ok(Known { facts, ..Known::default() })
}

/// From the first fact or session until now; nothing for who has none.
///
/// # Errors
/// What memory says.
pub async fn time_range(asked: &Asked) -> Result<Option<(String, String)>, Trouble> {
    let sql = "SELECT jsonb_build_array(least( \
                   (SELECT e.created_at FROM memory_list(kind => 'fact', oldest_first => true, \
                                                         \"limit\" => 1, user_id => $1) e), \
                   (SELECT min(s.created_at) FROM memory_sessions s WHERE s.user_id = $1) \
               ) AT TIME ZONE 'UTC', now() AT TIME ZONE 'UTC')";
    let user = asked.user_id();
    let found: Vec<(Option<String>, String)> =
        rows::read(&asked.rows(sql, &[(&user, Type::TEXT)]).await?)?;
    Ok(found.into_iter().find_map(|(first, now)| Some((first?, now))))
}

/// The address of the next page, with what was chosen.
pub fn next_page(asked: &Asked, next: &str) -> String {
    let chosen = asked.query.without(&["from", "done", "ids"]);
    let joint = if chosen.is_empty() { "" } else { "&" };
    format!("/ui?{chosen}{joint}from={}", parts::encoded(next))
}
