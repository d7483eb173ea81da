// The card of an A2A agent, as rows of names and values.

import { clean, safeLink, shortened } from "./clean.js";
import { element, link } from "./draw.js";
import { folded, jsonBlock } from "./events.js";

const text = (value) => (typeof value === "string" ? shortened(clean(value), 2000) : "");
const list = (value) => (Array.isArray(value) ? value.filter((item) => item && typeof item === "object").slice(0, 50) : []);

/** Fill an element with a card. */
export function showCard(box, card) {
  const rows = element("dl", "card-rows");
  for (const [name, value] of cardRows(card)) rows.append(element("dt", "", name), element("dd", "", value));
  box.replaceChildren(element("p", "card-about", text(card.description)), rows, folded("event", "The whole card as JSON", () => jsonBlock(card)));
}

function* cardRows(card) {
  if (card.provider?.organization) yield ["Provider", text(card.provider.organization)];
  if (card.documentationUrl) yield ["Documentation", linked(card.documentationUrl)];
  for (const found of list(card.supportedInterfaces)) {
    yield ["Interface", `${text(found.url)} (${text(found.protocolBinding)} ${text(found.protocolVersion)})`];
  }
  const able = Object.entries(card.capabilities ?? {}).filter(([, value]) => value === true).map(([name]) => name);
  if (able.length) yield ["Capabilities", able.join(", ")];
  for (const skill of list(card.skills)) yield [text(skill.name) || "Skill", text(skill.description) || text(skill.id)];
}

function linked(address) {
  const href = safeLink(address);
  return href ? link(href, href) : text(address);
}

/** Return questions that the agent's card gives as examples. */
export function examples(card) {
  const found = list(card?.skills).flatMap((skill) => (Array.isArray(skill.examples) ? skill.examples : []));
  return found.filter((example) => typeof example === "string" && example.trim()).slice(0, 3).map((example) => shortened(clean(example), 120));
}
