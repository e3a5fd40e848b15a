//! The file that blocks are put into. It appears under its name only when it is complete.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::stopped::Stopped;

pub(crate) struct Output {
    file: File,
    path: PathBuf,
    /// Where it is until then; `None` once it has its name.
    part: Option<PathBuf>,
}

impl Output {
    pub(crate) fn create(path: &Path) -> Result<Self, Stopped> {
        let Some(name) = path.file_name().filter(|_| !path.is_dir()) else {
            return Err(Stopped::file(path, "is a directory; name a file"));
        };
        let mut part = name.to_owned();
        part.push(format!(".part-{}", std::process::id()));
        let part = path.with_file_name(part);
        let file = OpenOptions::new().write(true).create(true).truncate(true).open(&part);
        let file = file.map_err(|error| Stopped::file(path, format!("cannot be written: {error}")))?;
        Ok(Self { file, path: path.to_owned(), part: Some(part) })
    }

    pub(crate) fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), Stopped> {
        self.file.write_all_at(bytes, offset).map_err(|error| self.failed(&error))
    }

    /// Gives it its length and its name.
    pub(crate) fn finish(mut self, len: u64) -> Result<(), Stopped> {
        self.file.set_len(len).map_err(|error| self.failed(&error))?;
        if let Some(part) = &self.part {
            std::fs::rename(part, &self.path).map_err(|error| self.failed(&error))?;
        }
        self.part = None;
        Ok(())
    }

    fn failed(&self, error: &std::io::Error) -> Stopped {
        Stopped::file(&self.path, format!("cannot be written: {error}"))
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if let Some(part) = &self.part {
            // Half a file is of no use to anybody.
            std::fs::remove_file(part).ok();
        }
    }
}
