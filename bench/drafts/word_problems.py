"""Maths word problems of several steps, for text_prompts.py. Those of one step are among the prompts of bass_draft."""

import re

_NAMES = ("Amara", "Ben", "Carla", "Dev", "Elif", "Farid", "Greta", "Hugo", "Ines", "Jamal", "Keiko", "Luis", "Mina", "Nikolai",
          "Oona", "Priya", "Quentin", "Rosa", "Stefan", "Tariq", "Uma", "Victor", "Wanda", "Xavier", "Yusuf", "Zoe", "Mr. Patel",
          "Mrs. Novak", "Grandma", "Coach Diaz")
_ITEMS = ("apples", "marbles", "stickers", "books", "pencils", "eggs", "postcards", "seashells", "balloons", "candles", "toy cars",
          "coins", "buttons", "lemons", "flower pots", "magazines", "badges", "notebooks", "pears", "comic books", "stamps", "kites")
_MADE = ("muffins", "candles", "bracelets", "cupcakes", "wooden boxes", "paper stars", "sandwiches", "scarves", "cookies", "clay cups",
         "bird houses", "jars of jam", "pies", "greeting cards", "pretzels")
_GOODS = ("a jacket", "a backpack", "a pair of boots", "a lamp", "a board game", "a bag of rice", "a concert ticket", "a tent",
          "a coffee maker", "a bicycle helmet", "a box of tea", "a set of tools", "a phone case", "a scarf", "a guitar string",
          "a loaf of bread", "a jar of honey", "a garden chair", "a football", "a pack of batteries")
_JOBS = ("washing cars", "tutoring", "walking dogs", "repairing bicycles", "painting fences", "babysitting", "delivering newspapers",
         "mowing lawns", "selling lemonade", "working in a bakery", "cleaning windows", "teaching piano", "designing websites")
_PLACES = ("the library", "the lake", "the next town", "the airport", "a museum", "the beach", "the stadium", "a friend's farm")
_GROUPS = ("people at a school fair", "guests at a wedding", "members in a chess club", "passengers on a ferry", "people at a street party",
           "children at a summer camp", "players at a tournament", "visitors in a zoo")
_PARTS = ("half", "a third", "a quarter", "a fifth", "two thirds", "three quarters", "two fifths")
_TIMES = ("twice", "three times", "four times", "five times", "half")

# (sentences, questions); a sentence that begins with ? can be left out
_STORIES = (
    (("{name} has #m {item}.", "?{name2} brings #s bags with #s {item} in each.", "{name} gives {part} of all the {item} to {name3}.",
      "?On the way home #s {item} get lost.", "?The next day {name} buys #s more."),
     ("How many {item} does {name} have now?", "How many {item} does {name} have left?")),
    (("{name} has {times} as many {item} as {name2}.", "{name2} has #s more than {name3}.", "{name3} has #m {item}.",
      "?{name2} loses #s of them."),
     ("How many {item} do they have altogether?", "How many {item} does {name} have?", "How many more has {name} than {name3}?")),
    (("{name} earns $#m an hour by {job}.", "{name} works #s hours a day, #d days a week.", "?Getting there costs $#s a day.",
      "?#p% of the pay goes into savings.", "?Every Friday there are $#s of tips."),
     ("How much does {name} earn in #s weeks?", "How much money does {name} have after #s weeks?",
      "How many weeks does it take until {name} has earned $#l?")),
    (("{name} buys #d things: {good} for $#m and the others for $#s each.", "?There is a discount of #p% on everything.",
      "?A coupon takes another $#s off.", "{name} pays with $#l."),
     ("How much change does {name} get?", "How much does {name} spend?")),
    (("{good} costs $#m.", "{good2} costs {times} as much.", "{good3} costs $#s more than {good2}.", "?The sales tax is #s%."),
     ("How much do all three cost together?", "How much more than {good} does {good3} cost?",
      "{name} has $#l. How much is left after buying all three?")),
    (("{name} drives to {place} at #m miles per hour, which takes #d hours.", "?On the way there is a rest of #m minutes.",
      "The way back is #s miles longer.", "?Because of the traffic it also takes {part} of an hour more."),
     ("How long is the way back?", "How many miles does {name} drive in all?", "What is the average speed on the way back?")),
    (("{name} leaves for {place} at #d o'clock and cycles at #s miles per hour.", "{name2} leaves #m minutes later, by car, at #m miles "
      "per hour.", "?{name2} stops once for #s minutes."),
     ("How far from home does {name2} overtake {name}?", "How far has {name} come when {name2} leaves?")),
    (("{name} is #s years older than {name2}.", "{name2} is {times} as old as {name3}.", "{name3} is #s years old."),
     ("How old is {name}?", "What is the sum of their ages?", "How old will {name} be in #s years?", "What is their average age?")),
    (("There are #l {group}.", "{part} of them are adults.", "?#p% of the adults wear glasses.",
      "?#m more adults arrive in the afternoon."),
     ("How many of them are not adults?", "How many adults are there in the end?", "If each adult pays $#s, how much is that in all?")),
    (("{name} makes #d trays of {made}, with #s on each tray.", "?#s of them are not good enough to be sold.",
      "{part} of the {made} are sold for $#s each.", "The others are sold for $#d each.", "?Material costs $#m.",
      "?The stall costs $#s a day."),
     ("How much money does {name} take in?", "How much profit does {name} make?")),
    (("{name} makes #s {made} an hour and {name2} makes #s.", "?{name2} begins #d hours later.", "?{name} takes a break of #m minutes.",
      "They need #l {made} for a market."),
     ("How many hours does it take them together?", "How many {made} do they have after #s hours?")),
    (("A factory makes #l {made} a day.", "#p% of them are thrown away.", "The rest go into boxes of #s.", "?A box sells for $#m."),
     ("How many full boxes are there after #d days?", "How much money is that in a week?", "How many {made} are thrown away in #d days?")),
    (("A tank holds #l liters and is {part} full.", "One pipe brings #s liters a minute.", "?Another pipe takes out #d liters a minute.",
      "?After #m minutes it rains, which adds #m liters."),
     ("How long does it take until the tank is full?", "How much water is in the tank after an hour?")),
    (("{name} reads a book of #l pages.", "On the first day {name} reads #m pages.", "?On the second day it is {times} as many.",
      "?After that {name} reads #m pages a day.", "?{name2} has read {part} of the same book."),
     ("How many pages are left after three days?", "What percentage of the book has {name} read after the second day?",
      "How many days does {name} need?")),
    (("{name} trains for a race.", "In the first week {name} runs #s miles.", "Every week it is #d miles more than in the week before.",
      "?{name2} runs #m miles every week."),
     ("How many miles does {name} run in the last of #d weeks?", "How many miles does {name} run in #s weeks altogether?")),
    (("A recipe for #d people needs #s cups of flour, #d eggs and #m grams of butter.", "{name} cooks for #m guests.",
      "?Flour costs $#d a cup and butter costs $#s for 100 grams.", "?There are already #s eggs in the kitchen."),
     ("How many eggs does {name} have to buy?", "How much flour and butter does {name} need?")),
    (("A hall has #m rows with #m seats each.", "{part} of the seats are taken.", "?Then #m more people come in.",
      "Tickets cost $#s for adults and $#d for children.", "?#m of the visitors are children."),
     ("How many seats are still free?", "How much money is taken in if all visitors are adults?")),
    (("{name} wants to buy {good} for $#l and has saved $#m.", "{name} gets $#s of pocket money a week.",
      "?Every month {name} also earns $#m by {job}.", "?{name2} gives {name} $#m as a birthday present."),
     ("After how many weeks can {name} buy it?", "How much is still missing after #s weeks?")),
    (("A rope is #m meters long.", "{name} cuts it into #d pieces.", "The first piece is {times} as long as the second.",
      "?The other pieces are all #d meters long."),
     ("How long is the first piece?", "How much rope is left without the first two pieces?")),
    (("{name} has a garden that is #m feet long and #m feet wide.", "{part} of it is for vegetables.",
      "?A path of #d feet in width goes all around it.", "?A fence costs $#s a foot.", "?A bag of seeds is enough for #m square feet."),
     ("How many square feet are not for vegetables?", "How much does a fence around the garden cost at $#s a foot?",
      "How large is the part for vegetables?")),
    (("A phone plan costs $#m a month and includes #l minutes.", "Each minute above that costs #s cents.", "?In the first month everything "
      "is #p% cheaper.", "{name} talks for {times} as many minutes as are included."),
     ("How much does {name} pay for a month?", "How much would {name} pay in a year?")),
    (("{name} plants #m trees, {name2} plants {times} as many, and {name3} plants #s fewer than {name}.",
      "?#p% of all the trees die in the first winter.", "?Each tree costs $#s."),
     ("How many trees have been planted?", "How many more trees has {name2} planted than {name3}?", "How many trees per person is that?")),
)
_NUMBERS = {"d": lambda rng: rng.randrange(2, 8), "s": lambda rng: rng.randrange(3, 20), "m": lambda rng: rng.randrange(20, 97),
            "l": lambda rng: 20 * rng.randrange(6, 60), "p": lambda rng: 5 * rng.randrange(1, 16)}


def word_problem(rng):
    sentences, questions = rng.choice(_STORIES)
    kept = [sentence.lstrip("?") for sentence in sentences if sentence[0] != "?" or rng.random() < 0.6]
    names, goods = rng.sample(_NAMES, 3), rng.sample(_GOODS, 3)
    words = {"name": names[0], "name2": names[1], "name3": names[2], "good": goods[0], "good2": goods[1], "good3": goods[2],
             "item": rng.choice(_ITEMS), "made": rng.choice(_MADE), "job": rng.choice(_JOBS), "place": rng.choice(_PLACES),
             "group": rng.choice(_GROUPS)}
    filled = []
    for template in [*kept, rng.choice(questions)]:
        sentence = template.format(**words, part=rng.choice(_PARTS), times=rng.choice(_TIMES))
        sentence = re.sub("#([dsmlp])", lambda match: str(_NUMBERS[match[1]](rng)), sentence)
        filled.append(sentence[0].upper() + sentence[1:])
    return " ".join(filled)
