//! The names of `\p{…}` that Go knows.

use regex_syntax::{
    Parser,
    hir::{Class, ClassUnicode, ClassUnicodeRange, Hir, HirKind},
};

/// Returns the characters of a category or script, or of `Any`, `ASCII` or `Assigned`.
///
/// Case, spaces, hyphens and underscores of a name do not matter. Go's tables are those of Unicode
/// 15, so characters that are newer belong to `Cn` alone.
pub(super) fn class(name: &str) -> Option<ClassUnicode> {
    let name = canonical(name);
    Some(match &*name {
        "Any" => ClassUnicode::new([ClassUnicodeRange::new('\0', char::MAX)]),
        "Ascii" => ClassUnicode::new([ClassUnicodeRange::new('\0', '\x7f')]),
        "Assigned" => {
            let mut class = unassigned();
            class.negate();
            class
        }
        "Cn" | "Unassigned" => unassigned(),
        // Surrogates occur in no text.
        "Cs" | "Surrogate" => ClassUnicode::empty(),
        // The category is without `Cn`.
        "C" | "Other" => {
            let mut class = known("gc=Cc");
            class.union(&known("gc=Cf"));
            class.union(&known("gc=Co"));
            class
        }
        name if is_one_of(name, CATEGORIES) => known(&format!("gc={name}")),
        name if is_one_of(name, SCRIPTS) => known(&format!("sc={name}")),
        _ => return None,
    })
}

/// Removes spaces, hyphens and underscores. The first letter becomes upper case, the others lower.
fn canonical(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for letter in name.chars() {
        if !matches!(letter, '_' | '-' | ' ') {
            out.push(match out.is_empty() {
                true => letter.to_ascii_uppercase(),
                false => letter.to_ascii_lowercase(),
            });
        }
    }
    out
}

fn is_one_of(name: &str, names: &str) -> bool {
    names.split_whitespace().any(|known| known == name)
}

fn unassigned() -> ClassUnicode {
    let mut class = table("age=15.0");
    class.negate();
    // Noncharacters also have an age, in which they were designated.
    class.union(&table("gc=Cn"));
    class
}

fn known(name: &str) -> ClassUnicode {
    let mut class = table(name);
    class.intersect(&table("age=15.0"));
    class
}

fn table(name: &str) -> ClassUnicode {
    let hir = Parser::new().parse(&format!(r"\p{{{name}}}"));
    match hir.map(Hir::into_kind) {
        Ok(HirKind::Class(Class::Unicode(class))) => class,
        _ => unreachable!("the tables of categories, scripts and ages are built in"),
    }
}

/// Categories by their short and long names, other than those above.
const CATEGORIES: &str = "
    Casedletter Cc Cf Closepunctuation Cntrl Co Combiningmark Connectorpunctuation Control
    Currencysymbol Dashpunctuation Decimalnumber Digit Enclosingmark Finalpunctuation Format
    Initialpunctuation L Lc Letter Letternumber Lineseparator Ll Lm Lo Lowercaseletter Lt Lu
    M Mark Mathsymbol Mc Me Mn Modifierletter Modifiersymbol N Nd Nl No Nonspacingmark
    Number Openpunctuation Otherletter Othernumber Otherpunctuation Othersymbol P
    Paragraphseparator Pc Pd Pe Pf Pi Po Privateuse Ps Punct Punctuation S Sc Separator Sk
    Sm So Spaceseparator Spacingmark Symbol Titlecaseletter Uppercaseletter Z Zl Zp Zs
";

/// Scripts whose name is one word. Go finds no other, because it removes the underscores first.
const SCRIPTS: &str = "
    Adlam Ahom Arabic Armenian Avestan Balinese Bamum Batak Bengali Bhaiksuki Bopomofo
    Brahmi Braille Buginese Buhid Carian Chakma Cham Cherokee Chorasmian Common Coptic
    Cuneiform Cypriot Cyrillic Deseret Devanagari Dogra Duployan Elbasan Elymaic Ethiopic
    Georgian Glagolitic Gothic Grantha Greek Gujarati Gurmukhi Han Hangul Hanunoo Hatran
    Hebrew Hiragana Inherited Javanese Kaithi Kannada Katakana Kawi Kharoshthi Khmer Khojki
    Khudawadi Lao Latin Lepcha Limbu Lisu Lycian Lydian Mahajani Makasar Malayalam Mandaic
    Manichaean Marchen Medefaidrin Miao Modi Mongolian Mro Multani Myanmar Nabataean
    Nandinagari Newa Nko Nushu Ogham Oriya Osage Osmanya Palmyrene Phoenician Rejang Runic
    Samaritan Saurashtra Sharada Shavian Siddham Sinhala Sogdian Soyombo Sundanese Syriac
    Tagalog Tagbanwa Takri Tamil Tangsa Tangut Telugu Thaana Thai Tibetan Tifinagh Tirhuta
    Toto Ugaritic Vai Vithkuqi Wancho Yezidi Yi
";
