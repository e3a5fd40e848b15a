//! Citations in source files: rule ids in comments, told apart by whether code or a test cites them.

use std::ops::RangeInclusive;

use super::page;

/// Whose comment cites a rule.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Side {
    Code,
    Test,
}

/// A rule's id in a comment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Citation {
    pub(super) id: String,
    pub(super) side: Side,
    /// Counted from 1.
    pub(super) line: usize,
}

/// What a file says about rules, and which modules of it are tests in files of their own.
#[derive(Default, Debug)]
pub(super) struct Found {
    pub(super) citations: Vec<Citation>,
    /// Where `#[cfg(test)] mod name;` is, by name or by the path it gives.
    pub(super) test_files: Vec<String>,
    /// Lines of `#[cfg(test)] mod name { … }`.
    pub(super) test_lines: Vec<RangeInclusive<usize>>,
}

/// Reads one file of Rust or C. `side` is that of its comments outside `#[cfg(test)]` modules.
pub(super) fn read(text: &str, side: Side) -> Found {
    let mut found = Found::default();
    let mut scope = Scope::Outside;
    let mut depth = 0usize;
    // Between tokens of code, so that `#[cfg(test)] mod x {` is seen as one thing whatever its layout.
    let mut code = String::new();
    let mut line = 1;
    for piece in pieces(text) {
        match piece {
            Piece::Comment(comment) => {
                let side = if scope == Scope::Outside { side } else { Side::Test };
                for (at, part) in comment.split('\n').enumerate() {
                    let ids = ids(part).map(|id| Citation { id: id.to_owned(), side, line: line + at });
                    found.citations.extend(ids);
                }
            }
            Piece::Literal(literal) => code.push_str(literal),
            Piece::Code(part) => {
                let mut here = line;
                for c in part.chars() {
                    match c {
                        '{' => {
                            if scope == Scope::Outside && is_test_module(&code).is_some() {
                                scope = Scope::TestModule { depth, from: here };
                            }
                            depth += 1;
                            code.clear();
                        }
                        '}' => {
                            depth = depth.saturating_sub(1);
                            if let Scope::TestModule { depth: start, from } = scope
                                && start == depth
                            {
                                scope = Scope::Outside;
                                found.test_lines.push(from..=here);
                            }
                            code.clear();
                        }
                        ';' => {
                            found.test_files.extend(is_test_module(&code).map(str::to_owned));
                            code.clear();
                        }
                        c => {
                            here += usize::from(c == '\n');
                            code.push(c);
                        }
                    }
                }
            }
        }
        line += piece.text().matches('\n').count();
    }
    found
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    Outside,
    /// It ends where its brace at this depth closes.
    TestModule {
        depth: usize,
        from: usize,
    },
}

/// The name, or the path, of the test module whose head this is.
fn is_test_module(head: &str) -> Option<&str> {
    let (_, head) = head.rsplit_once("#[cfg(test)]")?;
    let path = head.split_once("#[path").and_then(|(_, rest)| rest.split('"').nth(1));
    let name = head.rsplit_once("mod ").map(|(_, name)| name.trim())?;
    Some(path.unwrap_or(name))
}

/// The ids in one line of a comment.
fn ids(comment: &str) -> impl Iterator<Item = &str> {
    let words = comment.split(|c: char| !(c.is_alphanumeric() || c == '-' || c == '_'));
    words.filter(|word| page::parse(word).is_some())
}

/// A stretch of source text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Piece<'a> {
    Code(&'a str),
    Comment(&'a str),
    /// A string or character, with its quotes.
    Literal(&'a str),
}

impl<'a> Piece<'a> {
    fn text(self) -> &'a str {
        match self {
            Piece::Code(text) | Piece::Comment(text) | Piece::Literal(text) => text,
        }
    }
}

/// Cuts a text into code, comments and literals. Every byte is in one piece.
fn pieces(text: &str) -> impl Iterator<Item = Piece<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let at = rest.char_indices().map(|(at, _)| at).find(|at| special(rest, *at).is_some());
        let piece = match at {
            None if rest.is_empty() => return None,
            None => Piece::Code(rest),
            Some(0) => special(rest, 0)?,
            Some(at) => Piece::Code(rest.get(..at)?),
        };
        rest = rest.get(piece.text().len()..)?;
        Some(piece)
    })
}

/// The comment or literal that begins at `at`.
fn special(text: &str, at: usize) -> Option<Piece<'_>> {
    let rest = text.get(at..)?;
    let upto = |len: usize| rest.get(..len).unwrap_or(rest);
    if rest.starts_with("//") {
        return Some(Piece::Comment(upto(rest.find('\n').unwrap_or(rest.len()))));
    }
    if rest.starts_with("/*") {
        return Some(Piece::Comment(upto(block_comment(rest))));
    }
    if let Some(hashes) = raw_string(rest) {
        let before = text.get(..at).and_then(|before| before.chars().next_back());
        let is_word = before.is_some_and(|c| c.is_alphanumeric() || c == '_');
        let end = format!("\"{}", "#".repeat(hashes));
        let open = hashes + 2;
        let close = rest.get(open..).and_then(|inside| inside.find(&end)).map(|len| open + len + end.len());
        return (!is_word).then(|| Piece::Literal(upto(close.unwrap_or(rest.len()))));
    }
    match rest.chars().next()? {
        '"' => Some(Piece::Literal(upto(quoted(rest, '"')))),
        // `'a'` and `'\n'` are characters; `'a` alone is a lifetime.
        '\'' => {
            let mut inside = rest.chars().skip(1);
            let is_char = match inside.next()? {
                '\\' => true,
                _ => inside.next() == Some('\''),
            };
            is_char.then(|| Piece::Literal(upto(quoted(rest, '\''))))
        }
        _ => None,
    }
}

/// The length of a block comment, those inside it included.
fn block_comment(text: &str) -> usize {
    let mut depth = 0usize;
    for (at, _) in text.char_indices() {
        let rest = text.get(at..).unwrap_or_default();
        if rest.starts_with("/*") {
            depth += 1;
        } else if rest.starts_with("*/") {
            depth -= 1;
            if depth == 0 {
                return at + 2;
            }
        }
    }
    text.len()
}

/// The number of hashes of a raw string that begins here.
fn raw_string(text: &str) -> Option<usize> {
    let rest = text.strip_prefix('r')?;
    let hashes = rest.bytes().take_while(|byte| *byte == b'#').count();
    rest.get(hashes..)?.starts_with('"').then_some(hashes)
}

/// The length of a quoted literal, with both quotes.
fn quoted(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return at + c.len_utf8(),
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cited(text: &str) -> Vec<(String, Side, usize)> {
        read(text, Side::Code).citations.into_iter().map(|it| (it.id, it.side, it.line)).collect()
    }

    #[test]
    fn only_comments_cite() {
        let text = r####"
/// Waits (HS-3); see HS-4, too.
let id = "HS-5 // HS-6"; // HS-7: because
let raw = r#"// HS-8 "# ; let c = '"'; // HS-9
/* LIM-1 /* LIM-2 */
   LIM-3 */ fn f<'a>(x: &'a str) {} // I1
let e = '\''; let b = b"\" // I2"; //! I3
"####;
        let found = cited(text);
        let ids: Vec<(&str, usize)> = found.iter().map(|(id, _, line)| (id.as_str(), *line)).collect();
        assert_eq!(
            ids,
            [
                ("HS-3", 2),
                ("HS-4", 2),
                ("HS-7", 3),
                ("HS-9", 4),
                ("LIM-1", 5),
                ("LIM-2", 5),
                ("LIM-3", 6),
                ("I1", 6),
                ("I3", 7)
            ]
        );
    }

    #[test]
    fn what_only_looks_like_an_id_is_none() {
        assert_eq!(cited("// HS-3a XHS-3x HS_3 hs-3 HS - 3 AI1 I1st"), []);
    }

    #[test]
    fn test_modules_are_tests_and_what_follows_them_is_not() {
        let text = "// HS-1\nfn a() { if x {} }\n#[cfg(test)]\nmod tests {\n    fn b() { let s = \"}\"; }\n    // HS-2\n}\n// HS-3\n";
        let sides: Vec<Side> = cited(text).into_iter().map(|(_, side, _)| side).collect();
        assert_eq!(sides, [Side::Code, Side::Test, Side::Code]);
        assert_eq!(read(text, Side::Code).test_lines, [4..=7]);
    }

    #[test]
    fn test_modules_in_files_of_their_own_are_named() {
        let text =
            "#[cfg(test)]\nmod tests;\nmod more;\n#[cfg(test)]\n#[path = \"odd_tests.rs\"]\nmod odd;\n";
        assert_eq!(read(text, Side::Code).test_files, ["tests", "odd_tests.rs"]);
    }

    #[test]
    fn every_byte_is_in_a_piece() {
        for text in ["", "a", "\"open", "/* open", "r##\"open\"#", "'", "'\\", "é // é", "b'\\''x"] {
            let whole: String = pieces(text).map(Piece::text).collect();
            assert_eq!(whole, text);
        }
    }
}
