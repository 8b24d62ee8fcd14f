//! The files of an import as they come: plain, compressed with gzip, or in the ZIP archive of a provider.

use crate::archives::{self, GZIP, ZIP};
use flate2::bufread::MultiGzDecoder;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use zip::ZipArchive;

/// Bytes that are read at once.
const BUFFER: usize = 1 << 18;
const ZSTANDARD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];

/// How many bytes of all files there are, where that is known.
pub fn size(files: &[impl AsRef<Path>]) -> Option<u64> {
    let sizes = files.iter().map(|file| {
        let meta = std::fs::metadata(file.as_ref()).ok()?;
        meta.is_file().then_some(meta.len())
    });
    sizes.sum()
}

/// Hands out what a file has to read: itself, or the conversations of an archive with their names. Returns how many
/// files of the archive were left out.
///
/// # Errors
/// Why it cannot be read, and what `each` returns.
pub fn each(
    path: &Path,
    counter: &Arc<AtomicU64>,
    mut each: impl FnMut(Option<&str>, &mut dyn BufRead) -> Result<(), String>,
) -> Result<usize, String> {
    let is_stdin = path == Path::new("-");
    let count =
        |file| BufReader::with_capacity(BUFFER, Counted { file, read: Arc::clone(counter) });
    if is_stdin {
        let mut file = count(Input::Stdin(io::stdin()));
        return match beginning(&mut file)? {
            Packing::Zip => {
                Err("a ZIP archive cannot come from standard input: name its file".to_owned())
            }
            packing => plain(file, &packing, &mut each).map(|()| 0),
        };
    }
    let file = File::open(path).map_err(|error| error.to_string())?;
    if file.metadata().is_ok_and(|meta| meta.is_dir()) {
        return Err("it is a directory: name the files in it".to_owned());
    }
    let mut file = count(Input::File(file));
    match beginning(&mut file)? {
        Packing::Zip => packed(file, &mut each),
        packing => plain(file, &packing, &mut each).map(|()| 0),
    }
}

/// How a file is packed.
enum Packing {
    Plain,
    Gzip,
    Zip,
}

fn beginning(file: &mut impl BufRead) -> Result<Packing, String> {
    let start = file.fill_buf().map_err(|error| error.to_string())?;
    match start {
        start if start.starts_with(ZIP) => Ok(Packing::Zip),
        start if start.starts_with(GZIP) => Ok(Packing::Gzip),
        start if start.starts_with(ZSTANDARD) => {
            Err("it is compressed with Zstandard: unpack it first".to_owned())
        }
        _ => Ok(Packing::Plain),
    }
}

fn plain(
    mut file: impl BufRead,
    packing: &Packing,
    each: &mut impl FnMut(Option<&str>, &mut dyn BufRead) -> Result<(), String>,
) -> Result<(), String> {
    match packing {
        Packing::Gzip => {
            each(None, &mut BufReader::with_capacity(BUFFER, MultiGzDecoder::new(file)))
        }
        _ => each(None, &mut file),
    }
}

fn packed(
    file: impl Read + Seek,
    each: &mut impl FnMut(Option<&str>, &mut dyn BufRead) -> Result<(), String>,
) -> Result<usize, String> {
    let broken = || "the ZIP archive cannot be read".to_owned();
    let mut archive = ZipArchive::new(file).map_err(|_| broken())?;
    let files = archive.file_names().filter(|name| !name.ends_with('/')).count();
    let has_conversations = archive.file_names().any(is_conversations);
    let wanted = |name: &str| match has_conversations {
        true => is_conversations(name),
        false => name.ends_with(".json") || name.ends_with(".jsonl"),
    };
    let mut taken = 0;
    archives::each_file(&mut archive, wanted, broken, |name, file| {
        taken += 1;
        each(Some(&name), &mut BufReader::with_capacity(BUFFER, file))
    })?;
    match taken {
        0 => Err("the ZIP archive has no conversations.json, and no other file in JSON".to_owned()),
        taken => Ok(files - taken),
    }
}

/// Whether a file of an export has its conversations; large exports have several, which are numbered.
pub fn is_conversations(name: &str) -> bool {
    let name = name.rsplit('/').next().unwrap_or(name);
    name.starts_with("conversations") && name.ends_with(".json")
}

/// Where bytes come from.
enum Input {
    File(File),
    Stdin(io::Stdin),
}

/// A file, and how much of it has been read.
struct Counted {
    file: Input,
    read: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let bytes = match &mut self.file {
            Input::File(file) => file.read(to),
            Input::Stdin(stdin) => stdin.read(to),
        }?;
        self.read.fetch_add(bytes as u64, Ordering::Relaxed);
        Ok(bytes)
    }
}

impl Seek for Counted {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        match &mut self.file {
            Input::File(file) => file.seek(to),
            Input::Stdin(_) => Err(io::ErrorKind::NotSeekable.into()),
        }
    }
}
