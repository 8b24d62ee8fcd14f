//! What a form sends: fields, and files, which may come packed in a ZIP archive or with gzip. What is unpacked takes
//! room as it comes, of what the bodies of all requests have.

use super::request::Trouble;
use crate::archives;
use crate::terminal::is_conversations;
use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use bytes::Bytes;
use flate2::bufread::MultiGzDecoder;
use futures_util::stream;
use std::convert::Infallible;
use std::io::{Cursor, Read};

/// Most files at once, packed ones included.
const MAX_FILES: usize = 20_000;
/// Most bytes of one file: more than `memory_import_markdown` takes by default.
const MAX_FILE_BYTES: u64 = 8 << 20;
/// Most bytes of all files together once they are unpacked.
const MAX_BYTES: usize = 256 << 20;
/// What is unpacked before it takes room.
const PIECE: u64 = 64 << 10;
/// What is known of a file in an archive takes about so much, beside its name.
const FILE_BYTES: usize = 512;
/// How the entry of a file in the directory of an archive begins.
const ENTRY: &[u8] = b"PK\x01\x02";
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

    /// All fields of a name that are not empty.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let found = self.0.iter().filter(move |(found, _)| found == name);
        found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }

    /// The others as they stand in an address; empty ones are left out.
    pub fn without(&self, names: &[&str]) -> String {
        let others = self
            .0
            .iter()
            .filter(|(name, value)| !value.is_empty() && !names.contains(&name.as_str()));
        form_urlencoded::Serializer::new(String::new()).extend_pairs(others).finish()
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

/// What stands between the parts of a form that may have files.
fn boundary(headers: &HeaderMap) -> Option<String> {
    multer::parse_boundary(headers.get(CONTENT_TYPE)?.to_str().ok()?).ok()
}

/// Whether the body of a form may have files.
pub fn may_have_files(headers: &HeaderMap) -> bool {
    boundary(headers).is_some()
}

/// Takes room for so many bytes.
pub type TakeRoom = Box<dyn FnMut(usize) -> Result<(), Trouble> + Send>;

/// Reads the body of a form. Files take room; what `take_room` keeps it by lasts until all are unpacked, though
/// the browser may have left.
///
/// # Errors
/// It is invalid, or there is no room for its files.
pub async fn read(
    headers: &HeaderMap,
    body: Vec<u8>,
    take_room: TakeRoom,
) -> Result<(Fields, Vec<Upload>), Trouble> {
    let Some(boundary) = boundary(headers) else {
        return Ok((Fields::read(&body), Vec::new()));
    };
    let whole = stream::iter([Ok::<Bytes, Infallible>(Bytes::from(body))]);
    let mut parts = multer::Multipart::new(whole, boundary);
    let (mut fields, mut sent) = (Vec::new(), Vec::new());
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
            Some(path) if !path.is_empty() => sent.push((path, bytes)),
            _ => {}
        }
    }
    if sent.is_empty() {
        return Ok((Fields(fields), Vec::new()));
    }
    // It takes a while, and others wait for the threads that answer.
    let unpacking = tokio::task::spawn_blocking(move || {
        let mut files = Files { all: Vec::new(), bytes: 0, take_room };
        sent.into_iter().try_for_each(|(path, bytes)| files.take(path, &bytes))?;
        Ok(files.all)
    });
    let files = unpacking.await.unwrap_or_else(|_| Err(Trouble::invalid("The files are broken.")));
    Ok((Fields(fields), files?))
}

/// Files so far.
struct Files {
    all: Vec<Upload>,
    bytes: usize,
    take_room: TakeRoom,
}

impl Files {
    fn take(&mut self, path: String, bytes: &[u8]) -> Result<(), Trouble> {
        if bytes.starts_with(archives::ZIP) {
            return self.unpack(&path, bytes);
        }
        if bytes.starts_with(archives::GZIP) {
            let broken = || Trouble::invalid(format!("{path} cannot be unpacked."));
            let inner = path.strip_suffix(".gz").unwrap_or(&path).to_owned();
            return self.pour(inner, MultiGzDecoder::new(bytes), broken);
        }
        (self.take_room)(bytes.len())?;
        self.add(path, bytes.to_vec())
    }

    fn unpack(&mut self, path: &str, bytes: &[u8]) -> Result<(), Trouble> {
        let broken = || Trouble::invalid(format!("{path} is no ZIP archive that can be read."));
        // The directory is read as a whole, and takes more memory than it has bytes.
        let entries = bytes.windows(ENTRY.len()).filter(|start| *start == ENTRY).count();
        if entries > MAX_FILES {
            return Err(too_many());
        }
        (self.take_room)(entries * FILE_BYTES)?;
        let mut archive = zip::ZipArchive::new(Cursor::new(bytes)).map_err(|_| broken())?;
        // Of what a provider delivers, the conversations; of another archive, Markdown files; else what is in JSON.
        let names: Vec<String> = archive.file_names().map(str::to_owned).collect();
        let has_any = |wanted: &dyn Fn(&str) -> bool| names.iter().any(|name| wanted(name));
        let is_markdown = |name: &str| name.ends_with(".md");
        let (has_conversations, has_markdown) = (has_any(&is_conversations), has_any(&is_markdown));
        let wanted = |name: &str| match (has_conversations, has_markdown) {
            (true, _) => is_conversations(name),
            (false, true) => is_markdown(name),
            (false, false) => is_json(name),
        };
        archives::each_file(&mut archive, wanted, broken, |name, file| {
            self.pour(name, file, broken)
        })
    }

    /// Adds a file as it is unpacked: what is said of its size beforehand may be wrong.
    fn pour(
        &mut self,
        path: String,
        file: impl Read,
        broken: impl Fn() -> Trouble,
    ) -> Result<(), Trouble> {
        let mut text = Vec::new();
        let mut file = file.take(most_bytes(&path) + 1);
        loop {
            let piece = file.by_ref().take(PIECE).read_to_end(&mut text);
            let bytes = piece.map_err(|_| broken())?;
            if bytes == 0 {
                return self.add(path, text);
            }
            (self.take_room)(bytes)?;
        }
    }

    fn add(&mut self, path: String, bytes: Vec<u8>) -> Result<(), Trouble> {
        let most = most_bytes(&path);
        if bytes.len() as u64 > most {
            return Err(Trouble::invalid(format!("{path} has more than {most} bytes.")));
        }
        self.bytes += bytes.len();
        if self.all.len() >= MAX_FILES || self.bytes > MAX_BYTES {
            return Err(too_many());
        }
        let Ok(text) = String::from_utf8(bytes) else {
            return Err(Trouble::invalid(format!("{path} is not text in UTF-8.")));
        };
        self.all.push(Upload { path, text });
        Ok(())
    }
}

/// Whether a file holds many conversations, or many memories.
fn is_json(path: &str) -> bool {
    path.ends_with(".json") || path.ends_with(".jsonl")
}

/// What a file may have: one with many conversations has room for them.
fn most_bytes(path: &str) -> u64 {
    if is_json(path) { MAX_BYTES as u64 } else { MAX_FILE_BYTES }
}

fn too_many() -> Trouble {
    Trouble::invalid(format!("Send at most {MAX_FILES} files and {MAX_BYTES} bytes at once."))
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

    /// Room for so many bytes.
    fn room(mut left: usize) -> TakeRoom {
        Box::new(move |bytes| {
            left = left.checked_sub(bytes).ok_or_else(|| Trouble::invalid("There is no room."))?;
            Ok(())
        })
    }

    async fn sent(parts: &[(&str, &[u8])]) -> Result<(Fields, Vec<Upload>), Trouble> {
        sent_into(parts, room(usize::MAX)).await
    }

    async fn sent_into(
        parts: &[(&str, &[u8])],
        room: TakeRoom,
    ) -> Result<(Fields, Vec<Upload>), Trouble> {
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
        read(&headers, body, room).await
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
        assert_eq!(fields.all("a").collect::<Vec<_>>(), ["1 2", "3"]);
        assert_eq!(fields.without(&["c"]), "a=1+2&a=3");
    }

    fn compressed(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[tokio::test]
    async fn a_file_may_be_compressed() {
        let whole = compressed(b"{}\n");
        let twice = [compressed(b"{"), compressed(b"}\n")].concat();
        let (_, files) = sent(&[
            ("name=\"files\"; filename=\"said.jsonl.gz\"", &whole),
            ("name=\"files\"; filename=\"joined\"", &twice),
        ])
        .await
        .unwrap();
        let files: Vec<(&str, &str)> =
            files.iter().map(|file| (file.path.as_str(), file.text.as_str())).collect();
        assert_eq!(files, [("said.jsonl", "{}\n"), ("joined", "{}\n")]);
        let cut = ("name=\"files\"; filename=\"said.jsonl.gz\"", &whole[..whole.len() - 4]);
        let refused = sent(&[cut]).await.unwrap_err();
        assert_eq!(refused.message, "said.jsonl.gz cannot be unpacked.");
    }

    #[tokio::test]
    async fn an_archive_of_a_provider_is_its_conversations() {
        let names = async |packed: &[(&str, &[u8])]| {
            let sent = sent(&[("name=\"files\"; filename=\"export.zip\"", &zipped(packed))]).await;
            sent.unwrap().1.into_iter().map(|file| file.path).collect::<Vec<_>>()
        };
        let delivered: [(&str, &[u8]); 4] = [
            ("user.json", b"{}"),
            ("x/conversations.json", b"[]"),
            ("a.md", b""),
            ("b.png", &[255]),
        ];
        assert_eq!(names(&delivered).await, ["x/conversations.json"]);
        assert_eq!(names(&[delivered[0], delivered[2]]).await, ["a.md"]);
        assert_eq!(names(&[delivered[0], delivered[3]]).await, ["user.json"]);
    }

    #[tokio::test]
    async fn what_is_no_text_or_too_large_is_refused() {
        let file = "name=\"files\"; filename=\"a.md\"";
        assert!(sent(&[(file, &[0xff])]).await.is_err());
        assert!(sent(&[(file, b"PK\x03\x04 and nothing else")]).await.is_err());
        let large = vec![b' '; MAX_FILE_BYTES as usize + 1];
        assert!(sent(&[(file, &large)]).await.is_err());
        for bomb in [zipped(&[("a.md", &large)]), compressed(&large)] {
            assert!(bomb.len() < 100_000);
            assert!(sent(&[(file, &bomb)]).await.is_err());
        }
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, "multipart/form-data; boundary=XX".parse().unwrap());
        assert!(read(&headers, b"--XX\r\nnothing".to_vec(), room(0)).await.is_err());
    }

    #[tokio::test]
    async fn what_is_unpacked_takes_room_as_it_comes() {
        let archive = "name=\"files\"; filename=\"all.zip\"";
        let text = vec![b' '; 1 << 20];
        let packed = zipped(&[("a.md", &text), ("b.md", &text)]);
        let within = async |bytes| sent_into(&[(archive, &packed)], room(bytes)).await;
        assert_eq!(within((2 << 20) + 200_000).await.unwrap().1.len(), 2);
        // There is no room for the second file, nor for much of the first.
        for bytes in [3 << 19, 100_000] {
            assert_eq!(within(bytes).await.unwrap_err().message, "There is no room.");
        }
        let packed = compressed(&text);
        let within = async |bytes| {
            sent_into(&[("name=\"files\"; filename=\"a.md.gz\"", &packed)], room(bytes)).await
        };
        assert_eq!(within(1 << 20).await.unwrap().1.len(), 1);
        assert_eq!(within((1 << 20) - 1).await.unwrap_err().message, "There is no room.");
        // A directory alone takes room, and is bounded.
        let packed = zipped(&[("a.png", b""), ("b.png", b""), ("c.png", b"")]);
        assert!(sent_into(&[(archive, &packed)], room(3 * FILE_BYTES - 1)).await.is_err());
        assert!(sent_into(&[(archive, &packed)], room(3 * FILE_BYTES)).await.is_ok());
        let many = [packed, ENTRY.repeat(MAX_FILES)].concat();
        let refused = sent_into(&[(archive, &many)], room(usize::MAX)).await.unwrap_err();
        assert_eq!(refused.message, too_many().message);
    }
}
