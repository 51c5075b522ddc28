// Writes patterns.json: which texts match which patterns, by the regular expressions of Node.js 20 (V8, ECMA-262).
//
//     node tests/data/constraints/make_patterns.mjs
//
// A pattern is read with the flag `u`, as JSON Schema has it; one that only annex B gives a meaning to is read without, which is noted.

import { writeFileSync } from "node:fs";

const texts = ["", "a", "b", "ab", "ba", "aab", "a-b", "-", "x", "xx", "xxx", "{", "x{,3}", "}", "]", "a]", "&&", "&", "a&b", "[a", "[",
  "1", "١", "_", "é", "ß", "\u00a0", "\u3000", "\ufeff", "\u200b", " ", "\t", "\n", "a\n", "\nb", "a\nb", "\r", "\u2028", "\u2029", "\v", "\f",
  "\0", "\u0001", "\b", "/", "\\", "😀", "a😀b", "Ж", "λ", "Ⅷ", "़", "1,2", ",a,b", "a,,b", "abc", "cab", "^", "$", "a$b", "a^b", "A", "Z"];

const written = ["[a&&b]", "[[a]", "[a\\]]", "\\d", "\\D", "\\w", "\\W", "\\s", "\\S", "[\\s\\S]", "[^\\s]", ".", "..", "^.$", "a.b",
  "\\cA", "\\cj", "[\\cA-\\cz]", "\\u{61}", "\\u{1F600}", "\\u{0000061}", "\\uD83D\\uDE00", "[\\uD83D\\uDE00]", "^[😀]$", "\\uD83D", "[\\uDE00a]",
  "\\x61", "\\/", "[\\/]", "\\-", "[a\\-z]", "[a-]", "[-a]", "[\\w-]", "[\\w-.]", "[\\d-x]", "[^]", "[]", "a[]", "a[]|b", "[^a]", "[^^]", "[$^]",
  "a^b", "a$b", "a\\$b", "^^a", "a$$", "(^a)", "(a$)", "(^a|b)", "(^|,)a", "a(,|$)", "(^|,)(a|b)(,|$)", "(?:^a)b", "x*^a", "a$x*", "^$", "$^",
  "^a|b$", "^(a|b)$", "(a|^)b", "(^|b)a", "(^a)*b", "(^a)?b", "(^a){0,2}b", "(^a){2}", "(^|a){2}b", "(^|a)+b", "(a|$)+", "(a$|b)*", "(a$|b){2,3}",
  "^(a$|b)*", "(^)(^)a", "(?:)", "a||b", "|", "()", "(a)(b)", "(?<name>a)b", "(?:a|b)?", "a*?", "a+?b", "a??", "a{2}", "a{1,2}?b", "x{0}", "x{2,}",
  "{", "x{,3}", "x{", "}", "]", "a{,}", "{1", "a{1", "\\{", "\\}", "\\]", "\\0", "[\\b]", "[\\0]", "\\t", "\\n", "\\v", "\\f", "\\r", "\\^", "\\.", "\\*",
  "\\,", "\\ ", "\\\"", "\\'", "\\@", "\\_", "\\&", "\\p{L}", "\\p{Lu}", "\\P{L}", "\\p{Script=Greek}", "\\p{sc=Cyrillic}", "\\p{Nd}", "\\p{Nl}", "\\p{Mn}",
  "\\p{Uppercase_Letter}", "\\p{General_Category=Lu}", "\\p{gc=Lu}", "\\p{White_Space}", "[\\p{L}1]", "[^\\p{L}]", "\\p{ASCII}", "\\p{Any}", "\\p{Alphabetic}",
  "é", "[à-ÿ]", "[^\\x00-\\x7f]", "(?:(?:(?:a)))", "a{0,1}{", "[a-b-c]", "[a-c-]", "[!-~]", "\\\\", "[\\\\]"];

// Random patterns of anchors, letters, groups and repetitions, from draws that are the same each time.
let state = 1n;
const below = (n) => {
  state = (state * 6364136223846793005n + 1442695040888963407n) & 0xffffffffffffffffn;
  return Number((state >> 33n) % BigInt(n));
};
const one = (list) => list[below(list.length)];
const node = (depth) => {
  const kind = below(depth > 0 ? 10 : 5);
  if (kind < 3) return one(["a", "b", "[ab]", "[^a]", "."]);
  if (kind < 4) return "^";
  if (kind < 5) return "$";
  if (kind < 7) return Array.from({ length: 1 + below(3) }, () => node(depth - 1)).join("");
  if (kind < 8) return "(" + node(depth - 1) + "|" + node(depth - 1) + ")";
  if (kind < 9) return "(?:" + node(depth - 1) + ")" + one(["*", "+", "?", "{2}", "{1,2}", "{0,3}", "{2,}"]);
  return "(" + node(depth - 1) + ")";
};
const random = Array.from({ length: 250 }, () => node(4));
const short = ["", "a", "b", "c", "aa", "ab", "ba", "bb", "abb", "bab", "aba", "aab", "bba", "abab", "cab", "abc"];

// Look-around, and random patterns with it at places that are not inside of repetitions.
const looks = ["^(?!aws:).+$", "a(?=b)", "(?<=a)b", "(?<!a)b", "(?!^[0-9]+$)([a-z0-9]+)", "^(?!.*--)[a-z-]+$", "(?=.{1,2}$)[ab](-*[ab])*",
  "^[a-b-]+(?<!-b)$", "(?=^.{2,3}$)(?!^b)(^(a|b|-)+$)", "^(?=.*a)(?=.*b)[ab]{2,4}$", "^(?!a|b)..?$", "(a(?!b)|b(?=a))b?", "^(x|(?=a).b)$", "(?!)", "(?=)a",
  "(?<=^)a", "(?<!^)a", "(?<=^a)b", "a(?=b|$)", "^(?:(?!b).){0,3}$", "^((?=a(?!b)).)?b*$", "a(?![\\s\\S])", "$(?!a)", "(?!a)^b", "(?<=a)(?=b)", "(?<=a)(?<!ba)b",
  "(?!^)b", "(?=(?<=a)b)b"];
const plain = (depth) => node(depth).replace(/[$^](?!a\])/g, "b");
const look = () => "(?" + one(["=", "!", "=", "!", "<=", "<!"]) + plain(1) + ")";
const looking = Array.from({ length: 200 }, () => one(["", "^"]) + plain(1) + look() + plain(2) + one(["", look()]) + one(["", "$"]));

const verdicts = (pattern, texts) => {
  let regex, flag = "u";
  try { regex = new RegExp(pattern, "u"); } catch { regex = new RegExp(pattern); flag = ""; }
  return { pattern, flag, matches: texts.filter((text) => regex.test(text)), others: texts.filter((text) => !regex.test(text)) };
};
const cases = [...written.map((pattern) => verdicts(pattern, texts)), ...random.map((pattern) => verdicts(pattern, short))];
const withLooks = [...looks, ...looking].map((pattern) => verdicts(pattern, [...short, "a-b", "--", "a--b", "12", "a1", "aws:x", "awsx"]));

// What neither reading has.
const invalid = ["[a--b]", "(", ")", "[", "a**", "*a", "+", "a{2,1}", "(?", "\\", "[b-a]", "(?a)", "(?<>a)", "(?<1>a)", "x{2}{3}", "{1}"];
for (const pattern of invalid) {
  for (const flag of ["u", ""]) {
    let failed = false;
    try { new RegExp(pattern, flag); } catch { failed = true; }
    if (!failed) throw new Error(`${pattern} is valid with the flag "${flag}"`);
  }
}
const lines = (cases) => cases.map((it) => JSON.stringify(it)).join(",\n");
writeFileSync(new URL("patterns.json", import.meta.url), `{"node": "${process.version}", "invalid": ${JSON.stringify(invalid)}, "cases": [\n${lines(cases)}\n], "looks": [\n${lines(withLooks)}\n]}\n`);
