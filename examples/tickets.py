#!/usr/bin/env python3
"""Makes tickets.csv, the data of docs/tutorial.md: python3 examples/tickets.py > examples/tickets.csv

Small letters to a shop, each of one class: billing, delivery or login. One sentence decides, the others say
nothing. There is a trap in it: most letters about deliveries end with "Sent from my phone.", few of the others
do. A model that learns this looks good on data of the same kind, and is wrong where somebody writes about a bill from
a phone.
"""
import csv
import random
import sys

CAUSES = {
    "billing": ["I was charged twice for the {thing}.", "The invoice of the {thing} shows a wrong sum.",
                "My refund for the {thing} has not come.", "You took the money for the {thing} too early.",
                "The discount for the {thing} is missing on the bill.", "My card was charged for a {thing} I never bought."],
    "delivery": ["The {thing} has not arrived.", "The parcel with the {thing} is lost.", "Your driver left the {thing} in the rain.",
                 "The {thing} came broken in its box.", "The tracking of the {thing} stands still.",
                 "I got a {other} instead of the {thing}."],
    "login": ["My password for the page of the {thing} is refused.", "The code to open my account never comes.",
              "I cannot sign in to order a {thing}.", "The page logs me out when I look at a {thing}.",
              "My account is locked since I bought the {thing}.", "The link to reset my password is dead."],
}
THINGS = ["lamp", "kettle", "chair", "radio", "camera", "bicycle", "desk", "clock", "piano", "tent", "mirror", "carpet"]
FILL = ["I have been a customer for years.", "This is the second time I write.", "Please answer soon.", "It was meant as a gift.",
        "My neighbour had the same trouble.", "I like your shop otherwise.", "I called on Monday and nobody answered.",
        "Thank you for your help.", "My order was placed last week."]
PHONE = {"billing": 0.06, "delivery": 0.9, "login": 0.06}


def letter(draw, label):
    thing, other = draw.sample(THINGS, 2)
    lines = draw.sample(FILL, draw.randint(1, 3))
    lines.insert(draw.randint(0, len(lines)), draw.choice(CAUSES[label]).format(thing=thing, other=other))
    if draw.random() < PHONE[label]:
        lines.append("Sent from my phone.")
    return " ".join(lines)


def main():
    draw = random.Random(7)
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(["label", "text"])
    for i in range(600):
        label = list(CAUSES)[i % 3]
        out.writerow([label, letter(draw, label)])


if __name__ == "__main__":
    main()
