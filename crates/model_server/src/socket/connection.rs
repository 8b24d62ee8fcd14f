//! One client's connection: reads frames, answers each in a task of its own, writes the
//! answers. When the client leaves, its unanswered requests are dropped, which takes them out
//! of the queue.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::OwnedWriteHalf;
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::log;
use crate::protocol::{
    ErrorCode, FRAME_HEADER_BYTES, Frame, FrameHeader, ProtocolError, Response, encode,
};
use crate::socket::budget::{ByteBudget, Reservation};
use crate::work::service::Service;

/// How long a client may take to move the next [`STEP_BYTES`] of a frame, in either direction.
/// Between frames it may stay silent for ever.
const STEP_TIMEOUT: Duration = Duration::from_secs(30);
const STEP_BYTES: usize = 256 * 1024;

/// Most unanswered requests of one connection. PostgreSQL's processes have one; the limit keeps
/// a client that sends and never reads from filling the memory with answers.
const MAX_UNANSWERED: usize = 64;

/// Serves a connection until the client leaves or breaks the protocol.
pub async fn serve(stream: UnixStream, service: Arc<Service>, budget: Arc<ByteBudget>) {
    if let Err(reason) = read_requests(stream, &service, &budget).await {
        log::line(format_args!("closed a connection: {reason}"));
    }
}

/// Reads until the client leaves. An error is the reason to leave the client.
async fn read_requests(
    stream: UnixStream,
    service: &Arc<Service>,
    budget: &Arc<ByteBudget>,
) -> Result<(), String> {
    let (mut reader, writer) = stream.into_split();
    let writer = Arc::new(Mutex::new(writer));
    // Dropped on return, which aborts the tasks in it.
    let mut answers = JoinSet::new();
    loop {
        let mut header = [0; FRAME_HEADER_BYTES];
        if !read_header(&mut reader, &mut header).await? {
            return Ok(());
        }
        while answers.try_join_next().is_some() {}
        let header = match FrameHeader::parse(&header) {
            Ok(header) => header,
            Err(error) => {
                let code = match error {
                    ProtocolError::Version(_) => ErrorCode::Version,
                    _ => ErrorCode::InvalidRequest,
                };
                let response = Response::Error { code, message: error.to_string() };
                write_response(&writer, 0, &response).await;
                return Err(error.to_string());
            }
        };
        let room = if answers.len() < MAX_UNANSWERED {
            budget.reserve(header.body_bytes).ok_or_else(|| no_room(service, budget, &header))
        } else {
            Err(service.reject(format!("{MAX_UNANSWERED} requests of a connection are unanswered")))
        };
        let reservation = match room {
            Ok(reservation) => reservation,
            Err(response) => {
                skip(&mut reader, header.body_bytes).await?;
                // Written here, not in a task: who does not read must wait.
                write_response(&writer, header.id, &response).await;
                continue;
            }
        };
        let body = read_body(&mut reader, header.body_bytes).await?;
        let frame = Frame { id: header.id, body };
        answers.spawn(answer(
            frame,
            reservation,
            Arc::clone(service),
            Arc::clone(budget),
            Arc::clone(&writer),
        ));
    }
}

/// Answers one request. Its bytes stay reserved until the answer is written.
async fn answer(
    frame: Frame,
    reservation: Reservation,
    service: Arc<Service>,
    budget: Arc<ByteBudget>,
    writer: Arc<Mutex<OwnedWriteHalf>>,
) {
    let id = frame.id;
    let response = service.answer(frame, budget.used()).await;
    write_response(&writer, id, &response).await;
    drop(reservation);
}

fn no_room(service: &Service, budget: &ByteBudget, header: &FrameHeader) -> Response {
    let (limit, body_bytes) = (budget.limit(), header.body_bytes);
    if body_bytes > limit {
        Response::Error {
            code: ErrorCode::InvalidRequest,
            message: format!("a request of {body_bytes} bytes exceeds the limit of {limit}"),
        }
    } else {
        service.reject(format!(
            "the model server's queue is full: {body_bytes} bytes do not fit beside the {} held \
             (limit {limit})",
            budget.used()
        ))
    }
}

/// Waits for a header. `false` if the client left before it began one.
async fn read_header<R: AsyncRead + Unpin>(
    reader: &mut R,
    header: &mut [u8; FRAME_HEADER_BYTES],
) -> Result<bool, String> {
    let first = match reader.read(header).await {
        Ok(0) => return Ok(false),
        Ok(count) => count,
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Ok(false),
        Err(error) => return Err(error.to_string()),
    };
    in_time(reader.read_exact(&mut header[first..])).await?;
    Ok(true)
}

/// Reads a body. Memory grows with what arrives, not with what was announced.
async fn read_body<R: AsyncRead + Unpin>(
    reader: &mut R,
    body_bytes: usize,
) -> Result<Vec<u8>, String> {
    let mut body = Vec::new();
    while body.len() < body_bytes {
        let start = body.len();
        let step = STEP_BYTES.min(body_bytes - start);
        body.resize(start + step, 0);
        in_time(reader.read_exact(&mut body[start..])).await?;
    }
    Ok(body)
}

/// Reads a body and forgets it.
async fn skip<R: AsyncRead + Unpin>(reader: &mut R, body_bytes: usize) -> Result<(), String> {
    let mut scratch = vec![0; STEP_BYTES.min(body_bytes)];
    let mut left = body_bytes;
    while left > 0 {
        let step = left.min(scratch.len());
        in_time(reader.read_exact(&mut scratch[..step])).await?;
        left -= step;
    }
    Ok(())
}

/// Writes one answer. A client that does not take it is noticed by the reading side.
async fn write_response<W: AsyncWrite + Unpin>(writer: &Mutex<W>, id: u64, response: &Response) {
    let frame = encode(id, response).or_else(|error| {
        let message = format!("the answer does not fit a message, send fewer texts: {error}");
        encode(id, &Response::Error { code: ErrorCode::InvalidRequest, message })
    });
    let Ok(frame) = frame else { return };
    let mut writer = writer.lock().await;
    for step in frame.chunks(STEP_BYTES) {
        if in_time(writer.write_all(step)).await.is_err() {
            // A frame was cut: nothing that follows could be understood.
            let _ = writer.shutdown().await;
            return;
        }
    }
}

async fn in_time<T>(step: impl Future<Output = io::Result<T>>) -> Result<T, String> {
    match timeout(STEP_TIMEOUT, step).await {
        Ok(result) => result.map_err(|error| error.to_string()),
        Err(_) => Err(format!("no progress for {} s", STEP_TIMEOUT.as_secs())),
    }
}
