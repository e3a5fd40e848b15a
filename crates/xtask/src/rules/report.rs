//! What is missing, as text or as JSON.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::page::{self, Force, Rule};
use super::source::Side;
use super::{Cited, Exempt};

/// Rules against citations.
pub(super) struct Report {
    rules: usize,
    musts: usize,
    citations: usize,
    gaps: Vec<Gap>,
}

/// Something that is not as it should be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Gap {
    /// Of the rule.
    id: String,
    /// What is wrong, in words.
    what: String,
    /// How the rule begins, or where the citation stands.
    detail: String,
}

impl Report {
    pub(super) fn new(rules: Vec<Rule>, cited: Vec<Cited>, exempt: &[Exempt]) -> Self {
        let families: Vec<&str> =
            rules.iter().filter_map(|rule| page::parse(&rule.id)).map(|(it, _)| it).collect();
        let mut by_id: BTreeMap<&str, [usize; 2]> =
            rules.iter().map(|rule| (rule.id.as_str(), [0, 0])).collect();
        let mut gaps = Vec::new();
        let mut citations = 0;
        for (file, citation) in &cited {
            let ours = page::parse(&citation.id).is_some_and(|(family, _)| families.contains(&family));
            match by_id.get_mut(citation.id.as_str()) {
                Some(counts) => {
                    counts[citation.side as usize] += 1;
                    citations += 1;
                }
                // `UTF-8` is no rule, but `HS-99` was meant to be one.
                None if ours => gaps.push(Gap {
                    id: citation.id.clone(),
                    what: "no such rule".to_owned(),
                    detail: format!("{}:{}", file.display(), citation.line),
                }),
                None => {}
            }
        }
        for rule in &rules {
            let counts = by_id.get(rule.id.as_str()).copied().unwrap_or_default();
            if let Some(what) = missing(rule, counts, exempt) {
                gaps.push(Gap { id: rule.id.clone(), what: what.to_owned(), detail: rule.start.clone() });
            }
        }
        for exempt in exempt {
            let counts = by_id.get(exempt.id);
            if counts.is_none_or(|counts| counts[exempt.side as usize] > 0) {
                gaps.push(Gap {
                    id: exempt.id.to_owned(),
                    what: "exempt for nothing".to_owned(),
                    detail: exempt.why.to_owned(),
                });
            }
        }
        let musts = rules.iter().filter(|rule| rule.force == Force::Must).count();
        Self { rules: rules.len(), musts, citations, gaps }
    }

    pub(super) fn is_ok(&self) -> bool {
        self.gaps.is_empty() && self.musts > 0
    }

    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for Gap { id, what, detail } in &self.gaps {
            let _ = writeln!(text, "{id:<8} {what:<28} {detail}");
        }
        let (rules, musts, citations) = (self.rules, self.musts, thousands(self.citations));
        let verdict = match self.gaps.len() {
            0 => "rules ok".to_owned(),
            1 => "rules: 1 gap".to_owned(),
            gaps => format!("rules: {gaps} gaps"),
        };
        let _ = write!(text, "{verdict}: {rules} rules, {musts} of them say MUST, {citations} citations");
        text
    }

    pub(super) fn json(&self) -> String {
        let gaps = self.gaps.iter().map(|Gap { id, what, detail }| {
            format!(r#"{{"rule":{},"what":{},"detail":{}}}"#, quote(id), quote(what), quote(detail))
        });
        let gaps: Vec<String> = gaps.collect();
        format!(
            r#"{{"ok":{},"rules":{},"must":{},"citations":{},"gaps":[{}]}}"#,
            self.is_ok(),
            self.rules,
            self.musts,
            self.citations,
            gaps.join(",")
        )
    }
}

/// What a rule that is cited so often by code and by tests still lacks.
fn missing(rule: &Rule, [code, test]: [usize; 2], exempt: &[Exempt]) -> Option<&'static str> {
    let excused = |side| exempt.iter().any(|it| it.id == rule.id && it.side == side);
    let code = code > 0 || excused(Side::Code);
    let test = test > 0 || excused(Side::Test);
    match (rule.force, code, test) {
        (Force::Must, true, true) | (Force::Defines, true, _) | (Force::Defines, _, true) => None,
        (Force::Must, false, true) => Some("no code cites it"),
        (Force::Must, true, false) => Some("no test cites it"),
        (Force::Must, false, false) => Some("neither code nor test"),
        (Force::Defines, false, false) => Some("cited nowhere"),
    }
}

/// 1234 as `1,234`.
fn thousands(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A JSON string.
fn quote(text: &str) -> String {
    let mut quoted = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if u32::from(c) < 0x20 => {
                let _ = write!(quoted, "\\u{:04x}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::super::source::Citation;
    use super::*;

    fn page() -> Vec<Rule> {
        page::rules("- **HS-1** It MUST be.\n- **HS-2** It MUST \"be\".\n- **HS-3** It may be.\n")
    }

    fn report(cited: &[(&str, Side)], exempt: &[Exempt]) -> Report {
        let cited = cited.iter().map(|(id, side)| {
            (PathBuf::from("a.rs"), Citation { id: (*id).to_owned(), side: *side, line: 7 })
        });
        Report::new(page(), cited.collect(), exempt)
    }

    fn gaps(report: &Report) -> Vec<(&str, &str)> {
        report.gaps.iter().map(|gap| (gap.id.as_str(), gap.what.as_str())).collect()
    }

    const ALL: [(&str, Side); 5] = [
        ("HS-1", Side::Code),
        ("HS-1", Side::Test),
        ("HS-2", Side::Code),
        ("HS-2", Side::Test),
        ("HS-3", Side::Code),
    ];

    #[test]
    fn it_is_ok_when_both_sides_cite_every_must_and_one_the_others() {
        let report = report(&ALL, &[]);
        assert!(report.is_ok());
        assert_eq!(report.text(), "rules ok: 3 rules, 2 of them say MUST, 5 citations");
    }

    #[test]
    fn every_kind_of_gap_is_named() {
        let report = report(
            &[("HS-1", Side::Code), ("HS-2", Side::Test), ("HS-9", Side::Test), ("UTF-8", Side::Code)],
            &[],
        );
        let expected = [
            ("HS-9", "no such rule"),
            ("HS-1", "no test cites it"),
            ("HS-2", "no code cites it"),
            ("HS-3", "cited nowhere"),
        ];
        assert_eq!(gaps(&report), expected);
        assert!(!report.is_ok());
        assert!(
            report.text().contains("a.rs:7")
                && report.text().ends_with("rules: 4 gaps: 3 rules, 2 of them say MUST, 2 citations")
        );
    }

    #[test]
    fn an_exemption_stands_for_one_side_and_must_be_needed() {
        let exempt = || Exempt { id: "HS-2", side: Side::Test, why: "because" };
        assert!(report(&[ALL[0], ALL[1], ALL[2], ALL[4]], &[exempt()]).is_ok());
        assert_eq!(gaps(&report(&ALL, &[exempt()])), [("HS-2", "exempt for nothing")]);
        let unknown = Exempt { id: "HS-7", ..exempt() };
        assert_eq!(gaps(&report(&ALL, &[unknown])), [("HS-7", "exempt for nothing")]);
    }

    #[test]
    fn a_page_without_rules_proves_nothing() {
        assert!(!Report::new(Vec::new(), Vec::new(), &[]).is_ok());
    }

    #[test]
    fn json_is_quoted() {
        let json = report(&[("HS-1", Side::Code), ("HS-1", Side::Test), ("HS-3", Side::Code)], &[]).json();
        assert_eq!(
            json,
            r#"{"ok":false,"rules":3,"must":2,"citations":3,"gaps":[{"rule":"HS-2","what":"neither code nor test","detail":"It MUST \"be\"."}]}"#
        );
        assert_eq!(thousands(1_234_567), "1,234,567");
    }
}
