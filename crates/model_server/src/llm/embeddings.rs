//! Embeddings from a remote model: texts in batches to the endpoint, checked vectors back.

use super::call::{CallFailure, EndpointClient};
use super::endpoint::Endpoints;
use super::harmless::Harmless;
use super::http::HttpClient;
use super::providers;
use super::structured::Dialect;
use super::text_windows;
use crate::engine::pooling::normalize;
use crate::error::Failure;
use crate::protocol::{ErrorCode, Purpose, RemoteEmbedder};

/// Longest embedding that is accepted, pgvector's limit for a column.
const MAX_DIMENSION: usize = 16_000;

/// Embeds texts: per text its windows, at least one, each an embedding of Euclidean length 1.
/// All have the dimension of the settings, or, without one, the same.
///
/// # Errors
/// [`ErrorCode::RemoteUnavailable`] if the endpoint is of no use at present,
/// [`ErrorCode::InvalidRequest`] if it does not accept the texts or fails on them while it embeds others, and
/// [`ErrorCode::ModelInvalid`] if its embeddings are not what the settings say.
pub async fn embed(
    http: &HttpClient,
    endpoints: &Endpoints,
    remote: &RemoteEmbedder,
    purpose: Purpose,
    texts: &[String],
) -> Result<Vec<Vec<Vec<f32>>>, Failure> {
    let harmless = Harmless::Embedding { dimension: remote.dimension };
    let client = EndpointClient::new(http, endpoints, &remote.endpoint, harmless)
        .map_err(|message| Failure::new(ErrorCode::RemoteUnavailable, message))?;
    let known = client.state.dialect();
    let mut dialect = known;
    let (counts, mut rows) = loop {
        let windows: Vec<Vec<String>> = texts
            .iter()
            .map(|text| text_windows::windows(text, purpose, dialect.window_bytes))
            .collect();
        let counts: Vec<usize> = windows.iter().map(Vec::len).collect();
        match embed_windows(&client, remote, dialect, &windows.concat()).await {
            Ok(rows) => break (counts, rows),
            Err(Refusal::Final(failure)) => return Err(failure.into()),
            Err(Refusal::TryAs(next)) => dialect = next,
        }
    };
    if dialect != known {
        client.state.learn(dialect);
    }
    let dimension = match remote.dimension {
        Some(dimension) => dimension as usize,
        None => rows.first().map_or(0, Vec::len),
    };
    for row in &mut rows {
        check(&client, row, dimension)?;
        normalize(row);
    }
    let mut rows = rows.into_iter();
    Ok(counts.into_iter().map(|count| rows.by_ref().take(count).collect()).collect())
}

/// Why windows were not embedded.
enum Refusal {
    /// The endpoint may accept them in another dialect.
    TryAs(Dialect),
    Final(CallFailure),
}

/// Embeds windows in batches, in their order.
async fn embed_windows(
    client: &EndpointClient<'_>,
    remote: &RemoteEmbedder,
    dialect: Dialect,
    windows: &[String],
) -> Result<Vec<Vec<f32>>, Refusal> {
    let mut rows = Vec::with_capacity(windows.len());
    for batch in windows.chunks(remote.batch.max(1) as usize) {
        let (settings, dimension) = (client.settings, remote.dimension);
        let wire = providers::embeddings_request(settings, &client.base, dialect, batch, dimension)
            .map_err(|message| Refusal::Final(CallFailure::misconfigured(message)))?;
        let sent = wire.sent;
        let read = |body: &[u8]| providers::vectors(body, batch.len());
        let next = |failure: &CallFailure| match failure {
            CallFailure::Rejected { status: 400 | 413 | 422, error, .. } => {
                dialect.after_refused_texts(sent, batch, error)
            }
            _ => None,
        };
        let called = client.call(wire, read, |failure| next(failure).is_some()).await;
        match called.result {
            Ok(vectors) => rows.extend(vectors),
            Err(failure) => {
                return Err(next(&failure).map_or(Refusal::Final(failure), Refusal::TryAs));
            }
        }
    }
    Ok(rows)
}

fn check(client: &EndpointClient<'_>, row: &[f32], dimension: usize) -> Result<(), Failure> {
    let problem = if row.len() != dimension {
        format!("an embedding has {} numbers instead of {dimension}", row.len())
    } else if row.is_empty() || row.len() > MAX_DIMENSION {
        format!("an embedding has {} numbers, not 1 to {MAX_DIMENSION}", row.len())
    } else if !row.iter().all(|number| number.is_finite()) {
        "an embedding has a value that is not a finite number".to_owned()
    } else if row.iter().all(|number| *number == 0.0) {
        "an embedding is all zeros".to_owned()
    } else {
        return Ok(());
    };
    let message = format!("model \"{}\" of the endpoint: {problem}", client.settings.model);
    Err(Failure::new(ErrorCode::ModelInvalid, client.clean(&message)))
}

impl From<CallFailure> for Failure {
    fn from(error: CallFailure) -> Self {
        match error {
            CallFailure::Failed { message, is_timeout: true } => {
                Self::new(ErrorCode::Timeout, message)
            }
            CallFailure::Rejected { message, .. } | CallFailure::Failed { message, .. } => {
                Self::new(ErrorCode::InvalidRequest, message)
            }
            CallFailure::Unavailable { message, .. } | CallFailure::TooLarge { message } => {
                Self::new(ErrorCode::RemoteUnavailable, message)
            }
        }
    }
}
