//! Bodies of requests that a client has compressed. They are decoded as far as a body may be long, and go upstream plain.

use crate::gateway::{Gateway, Permit, ROOM_AT_ONCE};
use crate::refusal::Refusal;
use axum::http::HeaderMap;
use axum::http::header::CONTENT_ENCODING;
use flate2::read::MultiGzDecoder;
use ruzstd::decoding::StreamingDecoder;
use std::io::Read;

/// What a body in zstd may refer back to: as much as RFC 9659 lets a sender ask for.
const WINDOW: usize = 8 << 20;

/// A way to compress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Coding {
    Gzip,
    Zstd,
}

impl Coding {
    /// What the headers of a request name, if anything.
    ///
    /// # Errors
    /// Any other encoding.
    fn of(headers: &HeaderMap) -> Result<Option<Self>, Refusal> {
        let mut names: Vec<String> = Vec::new();
        for value in headers.get_all(CONTENT_ENCODING) {
            let value = String::from_utf8_lossy(value.as_bytes()).to_lowercase();
            let named = value.split(',').map(|name| name.trim().to_owned());
            names.extend(named.filter(|name| !matches!(name.as_str(), "" | "identity")));
        }
        match names.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            [] => Ok(None),
            ["gzip" | "x-gzip"] => Ok(Some(Self::Gzip)),
            ["zstd"] => Ok(Some(Self::Zstd)),
            _ => Err(Refusal::unknown_coding(&names.join(", "))),
        }
    }
}

/// The body of a request as it was before it was compressed.
///
/// # Errors
/// That it cannot be decoded, is too large then, or that other requests leave no room for it.
pub async fn decoded(
    gateway: &Gateway,
    headers: &HeaderMap,
    body: Vec<u8>,
    permit: &Permit,
) -> Result<Vec<u8>, Refusal> {
    let Some(coding) = Coding::of(headers)? else { return Ok(body) };
    let mut plain = Plain { gateway, permit, bytes: Vec::new(), room: 0 };
    match coding {
        Coding::Gzip => plain.take(&mut MultiGzDecoder::new(&body[..]), "gzip").await?,
        Coding::Zstd => {
            gateway.make_room(WINDOW, permit)?;
            let mut rest = &body[..];
            while !rest.is_empty() {
                let frame = StreamingDecoder::new_with_max_window_size(rest, WINDOW as u64);
                let mut frame = frame.map_err(|_| broken("zstd"))?;
                plain.take(&mut frame, "zstd").await?;
                rest = frame.into_inner();
            }
        }
    }
    Ok(plain.bytes)
}

fn broken(coding: &str) -> Refusal {
    Refusal::invalid(format!("the body is not {coding}, as content-encoding says"))
}

/// What was decoded.
struct Plain<'a> {
    gateway: &'a Gateway,
    permit: &'a Permit,
    bytes: Vec<u8>,
    /// So much is counted of it.
    room: usize,
}

impl Plain<'_> {
    async fn take(&mut self, from: &mut (dyn Read + Send), coding: &str) -> Result<(), Refusal> {
        let most = self.gateway.max_body;
        let mut piece = vec![0; ROOM_AT_ONCE];
        loop {
            let read = from.read(&mut piece).map_err(|_| broken(coding))?;
            if read == 0 {
                return Ok(());
            }
            if self.bytes.len() + read > most {
                return Err(Refusal::too_large(most));
            }
            if self.bytes.len() + read > self.room {
                self.gateway.make_room(ROOM_AT_ONCE, self.permit)?;
                self.room += ROOM_AT_ONCE;
            }
            self.bytes.extend_from_slice(&piece[..read]);
            // Others get their turn.
            tokio::task::yield_now().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn coding(values: &[&str]) -> Result<Option<Coding>, String> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(CONTENT_ENCODING, value.parse().unwrap());
        }
        Coding::of(&headers).map_err(|refusal| refusal.message().to_owned())
    }

    #[test]
    fn a_coding_is_known_or_named() {
        for none in [&[][..], &["identity"], &[""], &[" , Identity"]] {
            assert_eq!(coding(none), Ok(None), "{none:?}");
        }
        assert_eq!(coding(&["GZIP"]), Ok(Some(Coding::Gzip)));
        assert_eq!(coding(&["identity, zstd"]), Ok(Some(Coding::Zstd)));
        for (other, named) in [(&["br"][..], "br"), (&["gzip", "zstd"], "gzip, zstd")] {
            let problem = coding(other).unwrap_err();
            assert!(problem.contains(&format!("\"{named}\"")), "{problem}");
        }
    }
}
