//! What tells the files of a model's folder from those that were there before.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Folders lie this deep in the folder of a model: `onnx`, and those of modules.json.
const DEPTH: usize = 1;

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
            // The time of the last change, unlike that of the last write, is nobody's to set.
            let (seconds, nanoseconds) = (metadata.ctime(), metadata.ctime_nsec());
            let name = path.display();
            files.push(format!("{name} {inode} {bytes} {seconds}.{nanoseconds}"));
        }
    }
}
