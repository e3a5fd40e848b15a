//! Blocks of KV dumps and of other files: which bytes they have, in which order.
//!
//! **A KV dump** is a `.safetensors` file with tensors `layers.{i}.k` and `layers.{i}.v` for `i` in `0..layers`, the
//! first dimension of each being the tokens: `[tokens, heads, dim]`. Block `b` holds all that the model keeps for
//! tokens `b*T .. (b+1)*T`:
//!
//! ```text
//! layers.0.k[b*T .. (b+1)*T] ++ layers.0.v[b*T .. (b+1)*T] ++ layers.1.k[…] ++ layers.1.v[…] ++ …
//! ```
//!
//! in the file's own element type and byte order (little-endian), row-major. Tokens after the last full block are in
//! no block. Their ids are in the tensor `token_ids` (integers, `[tokens]`).
//!
//! **Any other file** is cut every `block_len` bytes; the last block is filled up with zeros.

use std::fs::File;
use std::io::{self, Read};
use std::num::{NonZeroU64, NonZeroUsize};
use std::os::unix::fs::FileExt;
use std::path::Path;

use safetensors::Dtype;
use safetensors::tensor::{Metadata, TensorInfo};

/// Why a file cannot be cut into blocks.
#[derive(Debug, thiserror::Error)]
pub enum LayoutError {
    /// The system's word.
    #[error("cannot be read: {0}")]
    Read(#[from] io::Error),
    /// It has no header, or one that contradicts itself.
    #[error("no valid safetensors file: {0}")]
    Safetensors(String),
    /// It holds something else than keys and values.
    #[error("no KV dump: {0}")]
    NotKv(String),
    /// Its prompt is shorter than one block.
    #[error("{tokens} tokens do not fill one block of {block_tokens}; use a smaller --block-tokens")]
    TooShort {
        /// Tokens in the file.
        tokens: usize,
        /// Tokens in a block.
        block_tokens: usize,
    },
    /// There is nothing in it.
    #[error("the file is empty")]
    Empty,
    /// More blocks than an index can name.
    #[error("{0} blocks are more than a region can have; use longer blocks")]
    TooManyBlocks(u64),
}

/// A file seen as blocks of equal length.
#[derive(Debug)]
pub struct Blocks {
    file: File,
    num_blocks: u32,
    block_len: u64,
    cut: Cut,
}

#[derive(Debug)]
enum Cut {
    /// Each block is one slice of every tensor, in this order.
    Kv { slices: Vec<Slices>, tokens: Option<Vec<u32>> },
    /// Each block is the next bytes.
    Plain { bytes: u64 },
}

/// One tensor's part in every block.
#[derive(Debug)]
struct Slices {
    /// Where the part of block 0 starts in the file.
    start: u64,
    /// Bytes in the part of one block.
    len: usize,
}

impl Blocks {
    /// Opens a KV dump.
    ///
    /// # Errors
    /// When the file is no KV dump with at least one full block.
    pub fn of_kv_dump(path: &Path, block_tokens: NonZeroUsize) -> Result<Self, LayoutError> {
        let file = File::open(path)?;
        let (header, data_start) = read_header(&file)?;
        let tensors = kv_tensors(&header)?;
        let tokens = tensors.first().and_then(|info| info.shape.first()).copied().unwrap_or(0);
        let full = tokens / block_tokens;
        if full == 0 {
            return Err(LayoutError::TooShort { tokens, block_tokens: block_tokens.get() });
        }
        let num_blocks = u32::try_from(full).map_err(|_| LayoutError::TooManyBlocks(full as u64))?;
        let mut slices = Vec::with_capacity(tensors.len());
        let mut block_len = 0;
        for info in tensors {
            let (start, end) = info.data_offsets;
            // Exact: the header's own check has compared shape and offsets.
            let len = (end - start) / tokens * block_tokens.get();
            slices.push(Slices { start: data_start + start as u64, len });
            block_len += len as u64;
        }
        if block_len == 0 {
            return Err(LayoutError::NotKv("its tensors have no elements".to_owned()));
        }
        let tokens = token_ids(&file, &header, data_start, tokens)?;
        Ok(Self { file, num_blocks, block_len, cut: Cut::Kv { slices, tokens } })
    }

    /// Opens any file.
    ///
    /// # Errors
    /// When it cannot be read, or has no bytes.
    pub fn of_file(path: &Path, block_len: NonZeroU64) -> Result<Self, LayoutError> {
        let file = File::open(path)?;
        let meta = file.metadata()?;
        if !meta.is_file() {
            return Err(LayoutError::Read(io::Error::other("not a regular file")));
        }
        if meta.len() == 0 {
            return Err(LayoutError::Empty);
        }
        let blocks = meta.len().div_ceil(block_len.get());
        let num_blocks = u32::try_from(blocks).map_err(|_| LayoutError::TooManyBlocks(blocks))?;
        Ok(Self { file, num_blocks, block_len: block_len.get(), cut: Cut::Plain { bytes: meta.len() } })
    }

    /// How many blocks there are, at least one.
    #[must_use]
    pub fn num_blocks(&self) -> u32 {
        self.num_blocks
    }

    /// Bytes in each.
    #[must_use]
    pub fn block_len(&self) -> u64 {
        self.block_len
    }

    /// Bytes in all of them, without what fills up the last one.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        match &self.cut {
            Cut::Kv { .. } => u64::from(self.num_blocks) * self.block_len,
            Cut::Plain { bytes } => *bytes,
        }
    }

    /// The ids of a KV dump's tokens, if they are in it.
    #[must_use]
    pub fn tokens(&self) -> Option<&[u32]> {
        match &self.cut {
            Cut::Kv { tokens, .. } => tokens.as_deref(),
            Cut::Plain { .. } => None,
        }
    }

    /// Reads block `index` into `block`, which has [`block_len`](Self::block_len) bytes.
    ///
    /// # Errors
    /// When the file cannot be read, or the block is not there.
    pub fn read(&self, index: u32, block: &mut [u8]) -> Result<(), LayoutError> {
        if index >= self.num_blocks || block.len() as u64 != self.block_len {
            return Err(LayoutError::Read(io::Error::other(format!(
                "there is no block {index} of this length"
            ))));
        }
        match &self.cut {
            Cut::Kv { slices, .. } => {
                let mut rest = block;
                for Slices { start, len } in slices {
                    let (part, more) = rest.split_at_mut(*len);
                    self.file.read_exact_at(part, start + u64::from(index) * *len as u64)?;
                    rest = more;
                }
            }
            Cut::Plain { bytes } => {
                let start = u64::from(index) * self.block_len;
                let len = (bytes - start).min(self.block_len);
                let (part, rest) = block.split_at_mut(usize::try_from(len).unwrap_or(usize::MAX));
                self.file.read_exact_at(part, start)?;
                rest.fill(0);
            }
        }
        Ok(())
    }
}

/// A larger header is no KV dump; the format's own limit.
const MAX_HEADER: u64 = 100_000_000;

/// The header, and where the data starts. Only the header is read: dumps may be larger than memory.
fn read_header(mut file: &File) -> Result<(Metadata, u64), LayoutError> {
    let invalid = |why: &str| LayoutError::Safetensors(why.to_owned());
    let mut len = [0; 8];
    file.read_exact(&mut len).map_err(|_| invalid("it is shorter than a header"))?;
    let len = u64::from_le_bytes(len);
    let data_start = len + 8;
    if len > MAX_HEADER || data_start > file.metadata()?.len() {
        return Err(invalid("its header is longer than the file"));
    }
    let mut header = vec![0; usize::try_from(len).unwrap_or(0)];
    file.read_exact(&mut header)?;
    let header: Metadata =
        serde_json::from_slice(&header).map_err(|error| LayoutError::Safetensors(error.to_string()))?;
    if file.metadata()?.len() - data_start != header.data_len() as u64 {
        return Err(invalid("it is shorter or longer than its header says"));
    }
    Ok((header, data_start))
}

/// The tensors of a block, in the order of its bytes.
fn kv_tensors(header: &Metadata) -> Result<Vec<&TensorInfo>, LayoutError> {
    let mut tensors: Vec<&TensorInfo> = Vec::new();
    for layer in 0.. {
        let names = [format!("layers.{layer}.k"), format!("layers.{layer}.v")];
        let [k, v] = names.each_ref().map(|name| header.info(name));
        let (Some(k), Some(v)) = (k, v) else {
            if let Some((there, missing)) = one_of(k.is_some(), v.is_some(), &names) {
                return Err(LayoutError::NotKv(format!("there is {there} but no {missing}")));
            }
            break;
        };
        tensors.extend([k, v]);
    }
    let expected = header.offset_keys().iter().filter(|name| name.starts_with("layers.")).count();
    let Some(first) = tensors.first() else {
        return Err(LayoutError::NotKv("there is no tensor layers.0.k".to_owned()));
    };
    if expected != tensors.len() {
        return Err(LayoutError::NotKv(format!(
            "there are {expected} tensors called layers.…, but only {} are K and V of layers counted from 0",
            tensors.len()
        )));
    }
    let tokens = first.shape.first();
    if let Some(odd) = tensors.iter().find(|info| info.shape.first() != tokens) {
        return Err(LayoutError::NotKv(format!(
            "its tensors do not have as many tokens each: shapes {:?} and {:?}",
            first.shape, odd.shape
        )));
    }
    Ok(tensors)
}

fn one_of(k: bool, v: bool, [k_name, v_name]: &[String; 2]) -> Option<(String, String)> {
    match (k, v) {
        (true, false) => Some((k_name.clone(), v_name.clone())),
        (false, true) => Some((v_name.clone(), k_name.clone())),
        (true, true) | (false, false) => None,
    }
}

fn token_ids(
    file: &File,
    header: &Metadata,
    data_start: u64,
    tokens: usize,
) -> Result<Option<Vec<u32>>, LayoutError> {
    let Some(info) = header.info("token_ids") else { return Ok(None) };
    let wrong = |why: String| LayoutError::NotKv(format!("token_ids: {why}"));
    if info.shape != [tokens] {
        return Err(wrong(format!("its shape is {:?}, but there are {tokens} tokens", info.shape)));
    }
    let (width, signed) = if info.dtype == Dtype::I32 || info.dtype == Dtype::U32 {
        (4, info.dtype == Dtype::I32)
    } else if info.dtype == Dtype::I64 || info.dtype == Dtype::U64 {
        (8, info.dtype == Dtype::I64)
    } else {
        return Err(wrong(format!("elements are {}, not whole numbers of 32 or 64 bits", info.dtype)));
    };
    let mut bytes = vec![0; tokens * width];
    file.read_exact_at(&mut bytes, data_start + info.data_offsets.0 as u64)?;
    let ids = bytes.chunks_exact(width).map(|id| {
        let wide = id.iter().rev().fold(0_u64, |value, byte| value << 8 | u64::from(*byte));
        u32::try_from(wide).ok().filter(|id| !(signed && *id > i32::MAX.unsigned_abs()))
    });
    let ids: Option<Vec<u32>> = ids.collect();
    ids.map(Some).ok_or_else(|| wrong("an id is negative or larger than 32 bits".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    const DUMP: &str =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/smollm2-135m-prompt.kv.safetensors");

    fn tokens(count: usize) -> NonZeroUsize {
        NonZeroUsize::new(count).expect("not zero")
    }

    fn bytes(count: u64) -> NonZeroU64 {
        NonZeroU64::new(count).expect("not zero")
    }

    /// A file of this test alone, gone with it.
    struct TempFile(std::path::PathBuf);

    impl TempFile {
        fn new(name: &str, content: &[u8]) -> Self {
            let path = std::env::temp_dir().join(format!("kvpeer-layout-{}-{name}", std::process::id()));
            File::create(&path).and_then(|mut file| file.write_all(content)).expect("a temporary file");
            Self(path)
        }
    }

    impl Drop for TempFile {
        fn drop(&mut self) {
            std::fs::remove_file(&self.0).ok();
        }
    }

    fn safetensors(tensors: &[(&str, Dtype, &[usize], &[u8])]) -> Vec<u8> {
        let views = tensors.iter().map(|(name, dtype, shape, data)| {
            let view = safetensors::tensor::TensorView::new(*dtype, shape.to_vec(), data).expect("a view");
            ((*name).to_owned(), view)
        });
        safetensors::serialize(views.collect::<Vec<_>>(), None).expect("a file")
    }

    fn refusal(name: &str, content: &[u8]) -> String {
        let file = TempFile::new(name, content);
        Blocks::of_kv_dump(&file.0, tokens(2)).expect_err("refused").to_string()
    }

    #[test]
    fn a_block_has_the_same_tokens_of_every_layer() {
        let k0 = [1, 2, 3, 4, 5, 6];
        let v0 = [11, 12, 13, 14, 15, 16];
        let k1 = [21, 22, 23];
        let v1 = [31, 32, 33];
        let content = safetensors(&[
            ("layers.1.v", Dtype::U8, &[3, 1], &v1),
            ("layers.0.k", Dtype::U8, &[3, 2], &k0),
            ("layers.0.v", Dtype::U8, &[3, 2], &v0),
            ("layers.1.k", Dtype::U8, &[3, 1], &k1),
        ]);
        let file = TempFile::new("order", &content);
        let blocks = Blocks::of_kv_dump(&file.0, tokens(1)).expect("a dump");
        assert_eq!((blocks.num_blocks(), blocks.block_len(), blocks.tokens()), (3, 6, None));
        let mut block = [0; 6];
        blocks.read(1, &mut block).expect("block 1");
        assert_eq!(block, [3, 4, 13, 14, 22, 32]);
        assert!(blocks.read(3, &mut block).is_err());
        assert!(blocks.read(0, &mut [0; 5]).is_err());
    }

    #[test]
    fn the_real_dump_is_five_blocks() {
        let blocks = Blocks::of_kv_dump(Path::new(DUMP), tokens(16)).expect("a dump");
        assert_eq!((blocks.num_blocks(), blocks.block_len(), blocks.bytes()), (5, 368_640, 1_843_200));
        let ids = blocks.tokens().expect("token ids");
        assert_eq!((ids.len(), ids.first(), ids.last()), (80, Some(&1), Some(&520)));
        // The reference: the safetensors crate's own view of the last layer's values of tokens 64..80.
        let content = std::fs::read(DUMP).expect("the file");
        let all = safetensors::SafeTensors::deserialize(&content).expect("tensors");
        let values = all.tensor("layers.29.v").expect("a tensor").data();
        let mut block = vec![0; 368_640];
        blocks.read(4, &mut block).expect("block 4");
        let part = 16 * 3 * 64 * 2;
        assert_eq!(block[block.len() - part..], values[4 * part..]);
    }

    #[test]
    fn tokens_after_the_last_full_block_are_in_none() {
        let blocks = Blocks::of_kv_dump(Path::new(DUMP), tokens(32)).expect("a dump");
        assert_eq!((blocks.num_blocks(), blocks.block_len()), (2, 737_280));
    }

    #[test]
    fn any_file_is_cut_and_filled_up() {
        let file = TempFile::new("plain", b"abcdefghij");
        let blocks = Blocks::of_file(&file.0, bytes(4)).expect("a file");
        assert_eq!((blocks.num_blocks(), blocks.bytes()), (3, 10));
        let mut block = [9; 4];
        blocks.read(2, &mut block).expect("block 2");
        assert_eq!(&block, b"ij\0\0");
    }

    #[test]
    fn files_that_are_no_dump_are_refused_with_the_reason() {
        assert!(refusal("empty", b"").contains("shorter than a header"));
        assert!(refusal("text", b"this is no tensor at all").contains("longer than the file"));
        assert!(refusal("json", b"\x02\0\0\0\0\0\0\0[]").contains("no valid safetensors"));
        let mut cut = safetensors(&[
            ("layers.0.k", Dtype::U8, &[2], &[1, 2]),
            ("layers.0.v", Dtype::U8, &[2], &[3, 4]),
        ]);
        cut.pop();
        assert!(refusal("cut", &cut).contains("shorter or longer"));
    }

    #[test]
    fn dumps_of_something_else_are_refused_with_the_reason() {
        let weights = safetensors(&[("model.embed", Dtype::U8, &[2], &[1, 2])]);
        assert!(refusal("weights", &weights).contains("no tensor layers.0.k"));
        let half = safetensors(&[("layers.0.k", Dtype::U8, &[2], &[1, 2])]);
        assert!(refusal("half", &half).contains("there is layers.0.k but no layers.0.v"));
        let uneven = safetensors(&[
            ("layers.0.k", Dtype::U8, &[2], &[1, 2]),
            ("layers.0.v", Dtype::U8, &[1, 2], &[3, 4]),
        ]);
        assert!(refusal("uneven", &uneven).contains("do not have as many tokens"));
        let short =
            safetensors(&[("layers.0.k", Dtype::U8, &[1], &[1]), ("layers.0.v", Dtype::U8, &[1], &[3])]);
        assert!(refusal("short", &short).contains("--block-tokens"));
        let gap = safetensors(&[
            ("layers.0.k", Dtype::U8, &[2], &[1, 2]),
            ("layers.0.v", Dtype::U8, &[2], &[3, 4]),
            ("layers.2.k", Dtype::U8, &[2], &[5, 6]),
        ]);
        assert!(refusal("gap", &gap).contains("3 tensors"));
    }

    #[test]
    fn token_ids_must_fit() {
        let kv: [(&str, Dtype, &[usize], &[u8]); 2] =
            [("layers.0.k", Dtype::U8, &[2], &[1, 2]), ("layers.0.v", Dtype::U8, &[2], &[3, 4])];
        let negative = [kv[0], kv[1], ("token_ids", Dtype::I32, &[2], &[1, 0, 0, 0, 255, 255, 255, 255])];
        assert!(refusal("negative", &safetensors(&negative)).contains("negative"));
        let few = [kv[0], kv[1], ("token_ids", Dtype::I32, &[1], &[1, 0, 0, 0])];
        assert!(refusal("few", &safetensors(&few)).contains("shape"));
        let float = [kv[0], kv[1], ("token_ids", Dtype::F32, &[2], &[0; 8])];
        assert!(refusal("float", &safetensors(&float)).contains("not whole numbers"));
        let wide = [
            kv[0],
            kv[1],
            ("token_ids", Dtype::I64, &[2], &[7, 0, 0, 0, 0, 0, 0, 0, 9, 1, 0, 0, 0, 0, 0, 0]),
        ];
        let file = TempFile::new("wide", &safetensors(&wide));
        let blocks = Blocks::of_kv_dump(&file.0, tokens(2)).expect("a dump");
        assert_eq!(blocks.tokens(), Some(&[7, 265][..]));
    }
}
