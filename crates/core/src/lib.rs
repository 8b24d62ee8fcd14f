//! The arithmetic and the text rules of `memory_agent`: everything that can be
//! computed without a database, a model or a clock.
//!
//! The crate knows nothing of PostgreSQL and does no I/O. The extension fetches
//! candidates, calls the models and passes plain values in; so every rule here
//! is tested in milliseconds. Start with [`rank`], which joins the steps of one
//! recall; the modules it uses are [`fuse`], [`score`], [`mmr`] and [`budget`].
//!
//! What is learned from conversations starts with [`extract`] and [`reconcile`]: the questions
//! to an LLM and the reading of its [`answers`], with [`gate`] for what needs no LLM and [`grounding`] for what an LLM made up. How calls
//! to an endpoint behave is in [`retry`], [`breaker`], [`rate`] and [`redact`]; what the model server
//! and an endpoint send is read by [`protocol`], [`frame`] and [`llm_answers`].
//!
//! How conversations are condensed is in [`summarize`], with [`levels`] for how much, [`material`]
//! and [`chunk`] for what goes into one request, and [`cut`] for what is too long in the end.
//! What programs write in the user's name is in [`client_forms`], what is taken out of texts before they are stored in
//! [`secrets`].
//! What of a session is in a prompt is in [`window`], [`triggers`] and [`archive`], what of a long memory in [`excerpt`].

pub mod answers;
pub mod anthropic;
pub mod archive;
pub mod attached;
pub mod augment;
pub mod blame;
pub mod blend;
pub mod bm25;
pub mod breaker;
pub mod budget;
mod calendar;
mod chat;
pub mod chat_body;
pub mod chat_messages;
pub mod chunk;
pub mod claims;
pub mod client_forms;
pub mod compression;
pub mod contradictions;
pub mod cut;
pub mod earlier;
pub mod echo;
pub mod episodes;
pub mod excerpt;
pub mod extract;
pub mod facts;
pub mod fence;
pub mod filter;
pub mod follow_up;
pub mod frame;
pub mod freshness;
pub mod front_matter;
pub mod fuse;
pub mod gate;
pub mod grounding;
pub mod half_characters;
pub mod highlights;
pub mod history_chain;
pub mod ids;
pub mod jobs;
pub mod json_answer;
pub mod language;
pub mod levels;
pub mod lexical;
pub mod limits;
pub mod llm_answers;
pub mod llm_endpoint;
pub mod markdown;
pub mod markers;
pub mod material;
pub mod memory_path;
pub mod mmr;
pub mod neighbors;
pub mod passages;
mod phrases;
mod preamble;
pub mod prompts;
pub mod protocol;
pub mod rank;
pub mod rate;
pub mod raw_json;
pub mod reconcile;
pub mod record;
pub mod redact;
pub mod reflect;
pub mod repetition;
mod replacements;
pub mod rerank_passage;
pub mod retry;
pub mod rewrite;
pub mod row_json;
pub mod score;
pub mod secrets;
mod sections;
mod sentences;
pub mod setting;
pub mod shares;
pub mod shorten;
pub mod signature;
pub mod statement_check;
pub mod summarize;
mod summary_prompts;
pub mod taken_back;
pub mod text;
pub mod time_phrases;
pub mod tokens;
pub mod triggers;
pub mod unicode;
pub mod window;
pub mod words;
pub mod words_sought;
