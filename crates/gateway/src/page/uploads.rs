//! What a form sends: fields, and files, which may come packed in a ZIP archive.

use super::request::Trouble;
use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use bytes::Bytes;
use futures_util::stream;
use std::convert::Infallible;
use std::io::{Cursor, Read};

/// Most files at once, packed ones included.
const MAX_FILES: usize = 20_000;
/// Most bytes of one file: more than `memory_import_markdown` takes by default.
const MAX_FILE_BYTES: u64 = 8 << 20;
/// Most bytes of all files together once they are unpacked.
const MAX_BYTES: usize = 256 << 20;
/// Most fields of a form.
const MAX_FIELDS: usize = 100;

/// Fields by name, as they came.
#[derive(Debug, Default)]
pub struct Fields(Vec<(String, String)>);

impl Fields {
    /// Reads what is encoded as in an address.
    pub fn read(encoded: &[u8]) -> Self {
        Self(form_urlencoded::parse(encoded).into_owned().take(MAX_FIELDS).collect())
    }

    /// A field that is not empty.
    pub fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(found, _)| found == name)?;
        Some(found.1.as_str()).filter(|value| !value.is_empty())
    }
}

/// A file that a visitor sent.
#[derive(Debug, PartialEq, Eq)]
pub struct Upload {
    /// Its path, as far as the browser or the archive says.
    pub path: String,
    pub text: String,
}

/// Reads the body of a form.
///
/// # Errors
/// That it is none.
pub async fn read(headers: &HeaderMap, body: Vec<u8>) -> Result<(Fields, Vec<Upload>), Trouble> {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let Ok(boundary) = multer::parse_boundary(kind) else {
        return Ok((Fields::read(&body), Vec::new()));
    };
    let whole = stream::iter([Ok::<Bytes, Infallible>(Bytes::from(body))]);
    let mut parts = multer::Multipart::new(whole, boundary);
    let (mut fields, mut files) = (Vec::new(), Files::default());
    let broken = |_| Trouble::invalid("The form cannot be read.");
    while let Some(part) = parts.next_field().await.map_err(broken)? {
        let name = part.name().unwrap_or_default().to_owned();
        let path = part.file_name().map(str::to_owned);
        let bytes = part.bytes().await.map_err(broken)?;
        match path {
            None if fields.len() < MAX_FIELDS => {
                fields.push((name, String::from_utf8_lossy(&bytes).into_owned()));
            }
            // A browser sends a file without a name when none was chosen.
            Some(path) if !path.is_empty() => files.take(path, &bytes)?,
            _ => {}
        }
    }
    Ok((Fields(fields), files.all))
}

/// Files so far.
#[derive(Default)]
struct Files {
    all: Vec<Upload>,
    bytes: usize,
}

impl Files {
    fn take(&mut self, path: String, bytes: &[u8]) -> Result<(), Trouble> {
        if bytes.starts_with(b"PK\x03\x04") {
            return self.unpack(&path, bytes);
        }
        self.add(path, bytes)
    }

    fn unpack(&mut self, path: &str, bytes: &[u8]) -> Result<(), Trouble> {
        let broken = || Trouble::invalid(format!("{path} is no ZIP archive that can be read."));
        let mut archive = zip::ZipArchive::new(Cursor::new(bytes)).map_err(|_| broken())?;
        for number in 0..archive.len() {
            let file = archive.by_index(number).map_err(|_| broken())?;
            let name = file.name().to_owned();
            if !name.ends_with(".md") {
                continue;
            }
            // What the archive says of the size may be wrong.
            let mut text = Vec::new();
            file.take(MAX_FILE_BYTES + 1).read_to_end(&mut text).map_err(|_| broken())?;
            self.add(name, &text)?;
        }
        Ok(())
    }

    fn add(&mut self, path: String, bytes: &[u8]) -> Result<(), Trouble> {
        if bytes.len() as u64 > MAX_FILE_BYTES {
            return Err(Trouble::invalid(format!("{path} has more than {MAX_FILE_BYTES} bytes.")));
        }
        self.bytes += bytes.len();
        if self.all.len() >= MAX_FILES || self.bytes > MAX_BYTES {
            let problem = format!("Send at most {MAX_FILES} files and {MAX_BYTES} bytes at once.");
            return Err(Trouble::invalid(problem));
        }
        let Ok(text) = String::from_utf8(bytes.to_vec()) else {
            return Err(Trouble::invalid(format!("{path} is not text in UTF-8.")));
        };
        self.all.push(Upload { path, text });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use zip::write::SimpleFileOptions;

    fn zipped(files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
        for (name, bytes) in files {
            writer.start_file(*name, SimpleFileOptions::default()).unwrap();
            writer.write_all(bytes).unwrap();
        }
        writer.finish().unwrap().into_inner()
    }

    async fn sent(parts: &[(&str, &[u8])]) -> Result<(Fields, Vec<Upload>), Trouble> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, "multipart/form-data; boundary=XX".parse().unwrap());
        let mut body = Vec::new();
        for (head, bytes) in parts {
            body.extend_from_slice(
                format!("--XX\r\ncontent-disposition: form-data; {head}\r\n\r\n").as_bytes(),
            );
            body.extend_from_slice(bytes);
            body.extend_from_slice(b"\r\n");
        }
        body.extend_from_slice(b"--XX--\r\n");
        read(&headers, body).await
    }

    #[tokio::test]
    async fn fields_and_files() {
        let packed = zipped(&[("entries/s/a.md", b"A"), ("image.png", &[255]), ("b.md", b"B")]);
        let (fields, files) = sent(&[
            ("name=\"form_token\"", b"t"),
            ("name=\"files\"; filename=\"\"", b""),
            ("name=\"files\"; filename=\"c.md\"", b"C"),
            ("name=\"files\"; filename=\"all.zip\"", &packed),
        ])
        .await
        .unwrap();
        assert_eq!(fields.get("form_token"), Some("t"));
        assert_eq!(fields.get("files"), None);
        let files: Vec<(&str, &str)> =
            files.iter().map(|file| (file.path.as_str(), file.text.as_str())).collect();
        assert_eq!(files, [("c.md", "C"), ("entries/s/a.md", "A"), ("b.md", "B")]);
        let fields = Fields::read(b"a=1+2&b=&c=%3Cb%3E&a=3");
        assert_eq!((fields.get("a"), fields.get("b")), (Some("1 2"), None));
        assert_eq!(fields.get("c"), Some("<b>"));
    }

    #[tokio::test]
    async fn what_is_no_text_or_too_large_is_refused() {
        let file = "name=\"files\"; filename=\"a.md\"";
        assert!(sent(&[(file, &[0xff])]).await.is_err());
        assert!(sent(&[(file, b"PK\x03\x04 and nothing else")]).await.is_err());
        let large = vec![b' '; MAX_FILE_BYTES as usize + 1];
        assert!(sent(&[(file, &large)]).await.is_err());
        let bomb = zipped(&[("a.md", &large)]);
        assert!(bomb.len() < 100_000);
        assert!(sent(&[(file, &bomb)]).await.is_err());
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, "multipart/form-data; boundary=XX".parse().unwrap());
        assert!(read(&headers, b"--XX\r\nnothing".to_vec()).await.is_err());
    }
}
