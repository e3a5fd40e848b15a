//! The protocol page: its rules, and what counts as a rule's id.

/// One rule of the page.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Rule {
    pub(super) id: String,
    pub(super) force: Force,
    /// How the rule begins, for people.
    pub(super) start: String,
}

/// What a rule asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Force {
    /// It says MUST or MUST NOT: code obeys it and a test proves it.
    Must,
    /// It defines a term or grants a choice.
    Defines,
}

/// Reads every list item that begins with an id in bold type.
pub(super) fn rules(page: &str) -> Vec<Rule> {
    let mut rules = Vec::new();
    let mut item: Option<(String, String)> = None;
    for line in page.lines() {
        if let Some((id, rest)) = start(line) {
            rules.extend(item.replace((id.to_owned(), rest.to_owned())).map(finish));
        } else if let (Some((_, text)), true) = (&mut item, line.starts_with("  ")) {
            text.push(' ');
            text.push_str(line.trim());
        } else {
            rules.extend(item.take().map(finish));
        }
    }
    rules.extend(item.map(finish));
    rules
}

/// The id and the first line of a rule that begins here.
fn start(line: &str) -> Option<(&str, &str)> {
    let (id, rest) = line.strip_prefix("- **")?.split_once("**")?;
    parse(id).map(|_| (id, rest.trim()))
}

fn finish((id, text): (String, String)) -> Rule {
    let must = text.split(|c: char| !c.is_alphanumeric()).any(|word| word == "MUST");
    let force = if must { Force::Must } else { Force::Defines };
    let mut start: String = text.chars().take(60).collect();
    if start.len() < text.len() {
        let whole_words = start.rfind(' ').unwrap_or(start.len());
        start.truncate(whole_words);
        start.push_str(" …");
    }
    Rule { id, force, start }
}

/// An id's family and number, if it has the shape of one: `HS-3`, or `I1` for an invariant.
pub(super) fn parse(word: &str) -> Option<(&str, u32)> {
    let (family, number) = match word.split_once('-') {
        Some(parts) => parts,
        None => ("I", word.strip_prefix('I')?),
    };
    let letters = !family.is_empty() && family.bytes().all(|byte| byte.is_ascii_uppercase());
    let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    (letters && digits).then(|| number.parse().ok()).flatten().map(|number| (family, number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_list_items_with_a_bold_id() {
        let page = "- **HS-1** A dial MUST be\n  answered.\n- **HS-2** A word means this.\n\
                    - **Bold** is not a rule, nor is HS-9.\n\nMUST stands in no rule.\n- **I1** *Late.* It MUST NOT.\n";
        let found = rules(page);
        let brief: Vec<(&str, Force)> = found.iter().map(|rule| (rule.id.as_str(), rule.force)).collect();
        assert_eq!(brief, [("HS-1", Force::Must), ("HS-2", Force::Defines), ("I1", Force::Must)]);
        assert_eq!(found.first().map(|rule| rule.start.as_str()), Some("A dial MUST be answered."));
    }

    #[test]
    fn a_must_in_a_rules_later_lines_counts_and_one_in_another_word_does_not() {
        let force = |page| rules(page).first().map(|rule| rule.force);
        assert_eq!(force("- **LIM-1** Every row\n  of the table\n  MUST be kept."), Some(Force::Must));
        assert_eq!(force("- **LIM-1** MUSTARD is yellow, and one must eat."), Some(Force::Defines));
    }

    #[test]
    fn ids_have_a_family_and_a_number() {
        assert_eq!(parse("HS-3"), Some(("HS", 3)));
        assert_eq!(parse("I7"), Some(("I", 7)));
        for word in ["HS", "HS-", "HS-x", "Hs-3", "-3", "I", "In", "3"] {
            assert_eq!(parse(word), None, "{word}");
        }
    }
}
