"use strict";
// What every page draws with: its data, and elements out of a tag and attributes.
const DATA = JSON.parse(document.getElementById("data").textContent);
const page = document.getElementById("page");
const tip = document.getElementById("tip");

function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

function svg(tag, attributes = {}, text) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (text !== undefined) node.textContent = text;
  return node;
}
