//! The files of a model's folder: what tells them from those that were there before, and how they are read. The
//! administrator of the folder may have put anything into it: links to devices, pipes without a writer, files of holes.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Folders lie this deep in the folder of a model: `onnx`, and those of modules.json.
const DEPTH: usize = 1;

/// Most bytes of `config.json` and its like.
pub(crate) const MAX_CONFIG_BYTES: u64 = 16 << 20;
/// Most bytes of a vocabulary: those of 250,000 tokens have 35 MB.
pub(crate) const MAX_TOKENIZER_BYTES: u64 = 256 << 20;
/// Most bytes of the weights of a layer after the graph.
pub(crate) const MAX_LAYER_BYTES: u64 = 256 << 20;
/// Most bytes of a graph: a message of Protocol Buffers has no more.
pub(crate) const MAX_GRAPH_BYTES: u64 = (2 << 30) - 1;

/// Opens a regular file of at most `max` bytes, without waiting for a writer.
///
/// # Errors
/// Those of the operating system, and that it is something else or larger.
pub(crate) fn open(path: &Path, max: u64) -> io::Result<File> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    if metadata.len() > max {
        let problem = format!("{} bytes, expected at most {max}", metadata.len());
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, problem));
    }
    Ok(file)
}

/// The bytes of a regular file of at most `max`; of one that grows meanwhile, so many.
///
/// # Errors
/// As for [`open`].
pub(crate) fn read(path: &Path, max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path, max)?.take(max).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The directory and what the file system says of its files: another text as soon as one of them was replaced or
/// written to. What cannot be read is left out; who loads the files meets it again.
pub(crate) fn state(directory: &Path) -> String {
    let mut files = Vec::new();
    list(directory, DEPTH, &mut files);
    files.sort();
    format!("{}\n{}", directory.display(), files.join("\n"))
}

fn list(directory: &Path, depth: usize, files: &mut Vec<String>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        // A link is what it leads to: caches of model hubs consist of links.
        let Ok(metadata) = fs::metadata(&path) else { continue };
        if metadata.is_dir() && depth > 0 {
            list(&path, depth - 1, files);
        } else if metadata.is_file() {
            let (inode, bytes) = (metadata.ino(), metadata.len());
            // The time of the last change, unlike that of the last write, cannot be set by a program.
            let (seconds, nanoseconds) = (metadata.ctime(), metadata.ctime_nsec());
            let name = path.display();
            files.push(format!("{name} {inode} {bytes} {seconds}.{nanoseconds}"));
        }
    }
}
