"use strict";
// The data of this page, and where it is drawn.
const DATA = JSON.parse(document.getElementById("data").textContent);
const page = document.getElementById("page");
